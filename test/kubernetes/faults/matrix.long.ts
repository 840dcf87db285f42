import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PauseResult, SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import { CountingProcess } from '../support/counting-process.ts';
import { readView } from './cluster-inventory.ts';
import { faultTable, type Outcome } from './fault-table.ts';
import { FaultyCluster, type PartName, partNames } from './faulty-cluster.ts';
import { MovingSandbox, moveNames } from './moving-sandboxes.ts';

const settleTimeoutMs = 240_000;
const roundTimeoutMs = 900_000;

/** One kill of a part while one sandbox makes each kind of move. */
interface Round {
  part: PartName;
  delayMs: number;
  downMs: number;
}

/**
 * The times from the requests to the kill. A create takes about two seconds, most other moves take one second, and a
 * freeze or a thaw takes some hundredths of a second.
 */
const listDelays = (part: PartName) => (part === 'node helper' ? [0, 20, 60, 700] : [50, 700, 1500]);

const rounds: Round[] = [
  ...partNames.flatMap((part) => listDelays(part).map((delayMs) => ({ part, delayMs, downMs: 1000 }))),
  { part: 'kube-apiserver', delayMs: 300, downMs: 60_000 },
];

let faulty: FaultyCluster;
/** A sandbox that runs during all rounds without any request. */
let bystander: { spec: SandboxSpec; place: SandboxPlace; startedAt: string };
/** A sandbox that is frozen during all rounds, and the count of its process. */
let sleeper: { spec: SandboxSpec; process: CountingProcess; count: number };
const outcomes: Outcome[] = [];
const startedMs = Date.now();

/** The start time of the sandbox's first process, which identifies the process. */
const readStart = async (place: SandboxPlace, spec: SandboxSpec) =>
  (await shell(place, spec, 'cat /proc/1/stat')).output.split(' ')[21]!;

async function startBystander(): Promise<typeof bystander> {
  const spec = await faulty.host.spec(faulty.image);
  const place = await faulty.driver.call<SandboxPlace>('create', spec);
  return { spec, place, startedAt: await readStart(place, spec) };
}

async function startSleeper(): Promise<typeof sleeper> {
  const spec = await faulty.host.spec(faulty.image);
  const place = await faulty.driver.call<SandboxPlace>('create', spec);
  const process = await CountingProcess.start(place, spec);
  await faulty.whenHelped(spec.sandboxId);
  const count = (await process.count(place, spec))!;
  expect(await faulty.driver.call<PauseResult>('pause', spec.sandboxId)).toEqual({ kept: 'memory' });
  return { spec, process, count };
}

beforeAll(async () => {
  faulty = await FaultyCluster.start({ hasHelper: true });
  bystander = await startBystander();
  sleeper = await startSleeper();
}, 300_000);

afterAll(async () => {
  const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
  process.stdout.write(`\n${faultTable(outcomes)}\n${outcomes.length} moves in ${minutes} min\n`);
  if (faulty) process.stdout.write(`${[...new Set(faulty.driver.warnings)].join('\n')}\n`);
  await faulty?.stop();
}, 120_000);

test.each(rounds)(
  'after kill -9 of $part, $delayMs ms into the moves and for $downMs ms, all states are consistent and nothing is left',
  async ({ part, delayMs, downMs }) => {
    const { driver, host } = faulty;
    const moving = await Promise.all(
      moveNames.map(async (move) => new MovingSandbox(faulty, move, await host.spec(faulty.image))),
    );
    await Promise.all(moving.map((each) => each.prepare()));

    const fired = Promise.all(moving.map((each) => each.fire(settleTimeoutMs)));
    await delay(delayMs);
    await faulty.kill(part);
    await delay(downMs);
    await faulty.up(part);
    const endings = await fired;

    expect(await faulty.disagreement()).toEqual([]);
    const { states } = await readView(faulty.cluster, host.namespace);
    expect(states.get(sleeper.spec.sandboxId)).toBe('paused');
    const faults = await Promise.all(
      moving.map((each, at) => each.fault(endings[at]!, states.get(each.spec.sandboxId) ?? 'absent')),
    );
    const ended = moving.map(({ move, kept }, at): Outcome => {
      const fault = downMs > 10_000 ? `${part} away` : part;
      return { fault, move, ended: faults[at] === null ? endings[at]! : `WRONG: ${faults[at]}`, kept };
    });
    outcomes.push(...ended);
    const words = ended.map((each) => `${each.move} ${each.ended}${each.kept ? ` (${each.kept})` : ''}`);
    process.stdout.write(`${part}, ${delayMs} ms: ${words.join('; ')}\n`);
    expect(faults.filter((each) => each !== null)).toEqual([]);

    const { spec, place, startedAt } = bystander;
    const quiet = [spec.sandboxId, sleeper.spec.sandboxId];
    expect(await readStart(place, spec)).toBe(startedAt);
    expect(driver.ends.filter(({ sandboxId }) => quiet.includes(sandboxId))).toEqual([]);

    await driver.call('reconcile', quiet);
    expect(await faulty.leftObjects(quiet)).toEqual([]);
    expect(await faulty.disagreement()).toEqual([]);
  },
  roundTimeoutMs,
);

test('a process that was frozen during all rounds continues with its count', async () => {
  const { spec, process, count } = sleeper;
  const again = { ...spec, run: 2 };
  const place = await faulty.driver.call<SandboxPlace>('resume', again);
  expect(place).toMatchObject({ from: 'thaw' });
  const first = (await process.count(place, again))!;
  expect(first).toBeGreaterThanOrEqual(count);
  // The process counts ten times a second, so in a single unfrozen round it would count further than this.
  expect(first - count).toBeLessThan(100);
  await delay(300);
  expect(await process.count(place, again)).toBeGreaterThan(first);
}, 120_000);

test('after all rounds the node has no traces of sandboxes, except mounts that a killed kubelet has forgotten', async () => {
  for (const { spec } of [bystander, sleeper]) await faulty.driver.call('remove', spec.sandboxId);
  expect(await faulty.leftObjects([])).toEqual([]);
  await faulty.removeHelper();
  expect(await faulty.leftOnNode()).toEqual([]);
  const forgotten = (await faulty.podsWithSubPaths()).length;
  process.stdout.write(`\n${forgotten} pods whose subPath mounts a killed kubelet has forgotten\n`);
}, 420_000);
