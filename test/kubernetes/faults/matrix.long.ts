import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec } from '../../../runtime/driver.ts';
import { shell } from '../../runtime/local-host.ts';
import { viewOf } from './cluster-inventory.ts';
import { faultTable, type Outcome } from './fault-table.ts';
import { FaultyCluster, type PartName, partNames } from './faulty-cluster.ts';
import { MovingSandbox, moveNames } from './moving-sandboxes.ts';

const settleTimeoutMs = 240_000;
const roundTimeoutMs = 900_000;

/** One kill of a part while six sandboxes move. */
interface Round {
  part: PartName;
  /** From the requests to the kill. A create takes about two seconds, most other moves one. */
  delayMs: number;
  downMs: number;
}

const rounds: Round[] = [
  ...partNames.flatMap((part) => [50, 700, 1500].map((delayMs) => ({ part, delayMs, downMs: 1000 }))),
  { part: 'kube-apiserver', delayMs: 300, downMs: 60_000 },
];

let faulty: FaultyCluster;
/** Runs through all rounds, asked for nothing. */
let bystander: { spec: SandboxSpec; place: SandboxPlace; startedAt: string };
const outcomes: Outcome[] = [];
const startedMs = Date.now();

/** Of its first process: another one has another. */
const startOf = async (place: SandboxPlace, spec: SandboxSpec) =>
  (await shell(place, spec, 'cat /proc/1/stat')).output.split(' ')[21]!;

beforeAll(async () => {
  faulty = await FaultyCluster.start();
  const spec = await faulty.host.spec(faulty.image);
  const place = await faulty.driver.call<SandboxPlace>('create', spec);
  bystander = { spec, place, startedAt: await startOf(place, spec) };
}, 300_000);

afterAll(async () => {
  const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
  process.stdout.write(`\n${faultTable(outcomes)}\n${outcomes.length} moves in ${minutes} min\n`);
  if (faulty) process.stdout.write(`${[...new Set(faulty.driver.warnings)].join('\n')}\n`);
  await faulty?.stop();
}, 120_000);

test.each(rounds)(
  'kill -9 of $part, $delayMs ms into the moves, away for $downMs ms: nothing is wrong, nothing is left',
  async ({ part, delayMs, downMs }) => {
    const { driver, host } = faulty;
    const moving = await Promise.all(
      moveNames.map(async (move) => new MovingSandbox(driver, move, await host.spec(faulty.image))),
    );
    await Promise.all(moving.map((each) => each.prepare()));

    const fired = Promise.all(moving.map((each) => each.fire(settleTimeoutMs)));
    await delay(delayMs);
    await faulty.kill(part);
    await delay(downMs);
    await faulty.up(part);
    const endings = await fired;

    expect(await faulty.disagreement()).toEqual([]);
    const { states } = await viewOf(faulty.cluster, host.namespace);
    const faults = await Promise.all(
      moving.map((each, at) => each.fault(endings[at]!, states.get(each.spec.sandboxId) ?? 'absent')),
    );
    for (const [at, { move }] of moving.entries()) {
      const ended = faults[at] === null ? endings[at]! : `WRONG: ${faults[at]}`;
      outcomes.push({ fault: downMs > 10_000 ? `${part} away` : part, move, ended });
    }
    expect(faults.filter((each) => each !== null)).toEqual([]);

    const { spec, place, startedAt } = bystander;
    expect(await startOf(place, spec)).toBe(startedAt);
    expect(driver.ends.filter(({ sandboxId }) => sandboxId === spec.sandboxId)).toEqual([]);

    await driver.call('reconcile', [spec.sandboxId]);
    expect(await faulty.leftObjects([spec.sandboxId])).toEqual([]);
    expect(await faulty.disagreement()).toEqual([]);
  },
  roundTimeoutMs,
);

test('after all rounds the node has nothing of any sandbox, but mounts that a killed kubelet has forgotten', async () => {
  await faulty.driver.call('remove', bystander.spec.sandboxId);
  expect(await faulty.leftObjects([])).toEqual([]);
  expect(await faulty.leftOnNode()).toEqual([]);
  const forgotten = (await faulty.podsWithSubPaths()).length;
  process.stdout.write(`\n${forgotten} pods whose subPath mounts a killed kubelet has forgotten\n`);
}, 300_000);
