import { setTimeout as delay } from 'node:timers/promises';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform, PartName } from './faulty-platform.ts';
import { leftovers, takeInventory } from './inventory.ts';
import { type Moving, settle, type TransitionName, transitionNames, transitions } from './transitions.ts';
import { wrongUsage } from './wrong-usage.ts';

/** One kill: which process, and whether before or after the acknowledgement of the requests. */
export interface Round {
  part: PartName;
  when: 'before' | 'after';
  /** The time from the requests to the kill, if it comes before their acknowledgement. */
  delayMs: number;
}

export interface Outcome {
  round: Round;
  transition: TransitionName;
  /** Whether a caller got a reply that promises the transition. */
  acknowledged: boolean;
  /** Its end. It starts with `WRONG` if this end is not allowed. */
  ended: string;
}

/**
 * Prepares eight sandboxes, each for another transition. Then one process of the platform is killed with `kill -9` and
 * restarted. Then each sandbox must have the requested state, or have failed with a reason.
 */
export async function playRound(platform: FaultyPlatform, round: Round): Promise<Outcome[]> {
  const clocked = transitionNames.filter((name) => ['timeout', 'auto-pause', 'expiry'].includes(name));
  const moving = new Map<TransitionName, Moving>();
  const prepare = async (name: TransitionName) => moving.set(name, await transitions[name].prepare(platform));
  // Those that a clock moves are prepared last, because their time starts now.
  for (const name of transitionNames) if (!clocked.includes(name)) await prepare(name);
  await Promise.all(clocked.map(prepare));

  const dues = clocked.map((name) => moving.get(name)!.dueMs!);
  const fired = () =>
    Promise.all(
      transitionNames.map(async (name) => ({
        name,
        acknowledged: await moving.get(name)!.fire(platform.api, round.when === 'after'),
      })),
    );
  let acknowledgements: { name: TransitionName; acknowledged: boolean }[];
  if (round.when === 'before') {
    await delay(Math.max(0, Math.min(...dues) - Date.now() - 500));
    const asked = fired();
    await delay(round.delayMs);
    await platform.kill(round.part);
    // The process is down while the clocks expire.
    await delay(Math.max(0, Math.max(...dues) + 300 - Date.now()));
    await platform.up(round.part);
    acknowledgements = await asked;
  } else {
    await delay(Math.max(0, Math.min(...dues) - Date.now() - 150));
    acknowledgements = await fired();
    await delay(Math.max(0, Math.max(...dues) + 20 - Date.now()));
    await platform.kill(round.part);
    await delay(500);
    await platform.up(round.part);
  }
  await platform.untilReady();
  return Promise.all(
    acknowledgements.map(async ({ name, acknowledged }) => ({
      round,
      transition: name,
      acknowledged,
      ended: await settle(platform, moving.get(name)!, acknowledged).catch((error) => `WRONG: ${error.message}`),
    })),
  );
}

/**
 * Whether the seconds of every sandbox add up: from its start to its stop, or to the beginning of its present phase,
 * each millisecond must be counted once, as running or as paused. Its usage must be the same.
 */
export async function wrongTotals(platform: FaultyPlatform): Promise<string[]> {
  const rows = await platform.orm.em.fork().find(Sandbox, { startedAt: { $ne: null } });
  const wrong = rows.flatMap((row) => {
    const countedUntil = row.stoppedAt ?? row.phaseSince!;
    const expectedMs = countedUntil.getTime() - row.startedAt!.getTime();
    const countedMs = row.runningMs + row.pausedMs;
    return countedMs === expectedMs ? [] : [`${row.name} ${row.status}: ${countedMs} ms of ${expectedMs}`];
  });
  return [...wrong, ...(await wrongUsage(platform))];
}

/** Deletes every sandbox. @returns what is then left without an owner */
export async function remains(platform: FaultyPlatform, dataDirs?: string[]): Promise<string[]> {
  await deleteAll(platform);
  let left: string[] = [];
  await until(async () => {
    left = leftovers(await takeInventory(platform, dataDirs));
    return left.length === 0;
  }, 60_000).catch(() => {});
  return left;
}

/** Deletes every sandbox, and waits until no list has one. */
export async function deleteAll(platform: FaultyPlatform): Promise<void> {
  const asked = new Set<string>();
  await until(async () => {
    const { body } = await platform.api.request<{ sandboxes: { sandbox_id: string }[] }>(
      'GET',
      '/v1/sandboxes?limit=100',
    );
    const ids = body.data.sandboxes.map((each) => each.sandbox_id);
    for (const id of ids.filter((each) => !asked.has(each))) {
      const { status } = await platform.api.request('DELETE', `/v1/sandboxes/${id}`);
      if (status === 202 || status === 404) asked.add(id);
    }
    await delay(100);
    return ids.length === 0;
  }, 120_000).catch((error) => {
    throw new Error(`of ${asked.size} deleted sandboxes some are still there`, { cause: error });
  });
}

/** The counts of each outcome as text: processes down, transitions across. */
export function matrixTable(outcomes: Outcome[]): string {
  const parts = [...new Set(outcomes.map(({ round }) => `${round.part} ${round.when}`))];
  const cell = (part: string, name: TransitionName) => {
    const of = outcomes.filter((each) => `${each.round.part} ${each.round.when}` === part && each.transition === name);
    const count = (wanted: (ended: string) => boolean) => of.filter((each) => wanted(each.ended)).length;
    const asAsked = count((ended) => ended === 'as asked' || ended.startsWith('done though'));
    const again = count((ended) => ended === 'done when asked again');
    const failed = count((ended) => ended.startsWith('failed'));
    const wrong = count((ended) => ended.startsWith('WRONG'));
    return `${asAsked}/${again}/${failed}/${wrong}`;
  };
  const rows = [
    ['killed', ...transitionNames],
    ...parts.map((part) => [part, ...transitionNames.map((name) => cell(part, name))]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const text = rows.map((row) =>
    row
      .map((word, column) => word.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return `as asked / done when asked again / failed with a reason / wrong\n${text.join('\n')}`;
}
