import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { sumUsage } from '../../db/usage/usage-sums.ts';
import { keepUsage } from '../../db/usage/usage-upkeep.ts';
import type { AccountId, SandboxId } from '../../domain/ids.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';
import { wrongUsage } from './wrong-usage.ts';

/**
 * Sandboxes change states while processes are killed. Then their recorded usage is compared with the clocks of their
 * lives.
 */
const lives = 4;
const kills = ['worker', 'postgres', 'api', 'worker', 'postgres', 'host'] as const;

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

/** Repeats the request until it is done, because any part may be down. */
async function become(sandboxId: SandboxId, command: string, status: string): Promise<void> {
  await until(async () => {
    try {
      if ((await platform.api.sandbox(sandboxId))?.status === status) return true;
      await platform.api.request('POST', `/v1/sandboxes/${sandboxId}/${command}`, {});
      return (await platform.api.sandbox(sandboxId))?.status === status;
    } catch {
      return false;
    }
  }, 120_000);
}

test('usage equals the clocks of the lives, even if processes are killed meanwhile', async () => {
  const since = new Date(Date.now() - 60_000);
  const made = await Promise.all(
    Array.from({ length: lives }, (_, index) => platform.api.createSandbox({ ...small, name: `usage-${index}` })),
  );
  let killing = true;
  const live = async (sandboxId: SandboxId) => {
    let moves = 0;
    while (killing) {
      await become(sandboxId, 'pause', 'paused');
      await become(sandboxId, 'resume', 'running');
      moves += 2;
    }
    return moves;
  };
  const living = Promise.all(made.map(({ sandbox_id: id }) => live(id)));
  for (const part of kills) {
    await delay(1500);
    await platform.kill(part);
    await delay(300);
    await platform.up(part);
    await platform.untilReady();
    const kept = () =>
      keepUsage(platform.orm.em, 24).then(
        () => true,
        () => false,
      );
    await until(kept, 60_000);
  }
  killing = false;
  const moves = await living;
  for (const { sandbox_id: id } of made) await become(id, 'terminate', 'terminated');
  expect(await wrongUsage(platform)).toEqual([]);

  const rows = await platform.rows<{
    account_id: AccountId;
    ran: number;
    pending: number;
    days: number;
    events: number;
  }>(
    `select account_id, sum(cpu_count * running_ms)::float8 as ran,
            (select count(*)::int from usage_pending) as pending,
            (select sum(events)::int from usage_days) as days, (select count(*)::int from usage_events) as events
       from sandboxes group by 1`,
  );
  expect(rows).toHaveLength(1);
  const { account_id: accountId, ran, pending, days, events } = rows[0]!;
  expect(days + pending).toBe(events);
  const of = { scope: { rows: 'account' as const, accountId } };
  const sums = await sumUsage(platform.orm.em, of, { start: since, end: new Date() });
  expect(Number(sums.find((sum) => sum.usageType === 'cpu_seconds')?.amount)).toBe(ran);
  const done = `${moves.join(' + ')} moves, ${events} events, ${ran} core-milliseconds`;
  process.stdout.write(`${kills.join(', ')} killed; ${done}\n`);
}, 600_000);
