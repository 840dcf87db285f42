import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readSandboxId } from '../../../runtime/kubernetes/names.ts';
import { until } from '../../support/until.ts';
import { readView } from './cluster-inventory.ts';
import { CallFailed } from './driver-process.ts';
import { faultTable, type Outcome } from './fault-table.ts';
import { FaultyCluster, partNames } from './faulty-cluster.ts';
import { MovingSandbox } from './moving-sandboxes.ts';

const settleTimeoutMs = 240_000;
const warmPods = 3;
/** A create from a warm pod takes less than a tenth of a second, and three at once take little more. */
const delaysMs = [0, 15, 40, 80];
const downMs = 1000;
const rounds = partNames.flatMap((part) => delaysMs.map((delayMs) => ({ part, delayMs })));

let faulty: FaultyCluster;
const outcomes: Outcome[] = [];
let createsInWarmPods = 0;

beforeAll(async () => {
  faulty = await FaultyCluster.start({ hasHelper: true, warmPods });
}, 300_000);

afterAll(async () => {
  process.stdout.write(`\n${faultTable(outcomes)}\n`);
  if (faulty) process.stdout.write(`${[...new Set(faulty.driver.warnings)].join('\n')}\n`);
  await faulty?.stop();
}, 120_000);

/** The names of the pods and of the disks that belong to a sandbox. */
async function objectsOfSandbox({ spec: { sandboxId } }: MovingSandbox): Promise<{ pods: string[]; disks: string[] }> {
  const { core, namespace } = faulty.host;
  const [pods, disks] = await Promise.all([
    core.listNamespacedPod({ namespace }),
    core.listNamespacedPersistentVolumeClaim({ namespace }),
  ]);
  const own = (items: Parameters<typeof readSandboxId>[0][]) =>
    items.filter((item) => readSandboxId(item) === sandboxId).map(({ metadata }) => metadata!.name!);
  return { pods: own(pods.items), disks: own(disks.items) };
}

/** Removes a sandbox. As a workflow does, it repeats a call that fails while a part of the cluster is away. */
const removed = (sandboxId: string) =>
  until(async () => {
    try {
      await faulty.driver.call('remove', sandboxId);
      return true;
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      return false;
    }
  }, settleTimeoutMs);

test.each(rounds)(
  'after kill -9 of $part, $delayMs ms after sandboxes begin to take warm pods, each has exactly one pod and one disk, and nothing is left',
  async ({ part, delayMs }) => {
    const { driver, host } = faulty;
    await host.addVolumes(3 * warmPods);
    await until(async () => (await driver.call<number>('countWarm')) >= warmPods, settleTimeoutMs);
    const moving = await Promise.all(
      Array.from({ length: warmPods }, async () => new MovingSandbox(faulty, 'create', await host.spec(faulty.image))),
    );

    const fired = Promise.all(moving.map((each) => each.fire(settleTimeoutMs)));
    await delay(delayMs);
    await faulty.kill(part);
    await delay(downMs);
    await faulty.up(part);
    const endings = await fired;

    expect(await faulty.disagreement()).toEqual([]);
    const { states } = await readView(faulty.cluster, host.namespace);
    const faults = await Promise.all(
      moving.map((each, at) => each.fault(endings[at]!, states.get(each.spec.sandboxId) ?? 'absent')),
    );
    outcomes.push(
      ...endings.map((ending, at): Outcome => {
        const ended = faults[at] === null ? ending : `WRONG: ${faults[at]}`;
        return { fault: part, move: 'create', ended, kept: null };
      }),
    );
    expect(endings.filter((ending) => !ending.startsWith('done'))).toEqual([]);
    expect(faults.filter((fault) => fault !== null)).toEqual([]);

    const kept = moving.map(({ spec }) => spec.sandboxId);
    // A host worker reconciles repeatedly too.
    await until(async () => {
      await driver.call('reconcile', kept);
      const objects = await Promise.all(moving.map(objectsOfSandbox));
      return objects.every(({ pods, disks }) => pods.length === 1 && disks.length === 1);
    }, settleTimeoutMs);
    const used = (await Promise.all(moving.map(objectsOfSandbox))).flatMap(({ pods }) => pods);
    expect(new Set(used).size).toBe(warmPods);
    const inWarmPods = used.filter((name) => !kept.some((sandboxId) => sandboxId === name)).length;
    createsInWarmPods += inWarmPods;
    process.stdout.write(`${part}, ${delayMs} ms: ${endings.join('; ')}; ${inWarmPods} in warm pods\n`);

    for (const sandboxId of kept) await removed(sandboxId);
    await driver.call('reconcile', []);
    expect(await faulty.leftBesideWarmPods()).toEqual([]);
    expect(await faulty.disagreement()).toEqual([]);
  },
  900_000,
);

test('after all rounds a driver that closes removes its warm pods, and the node has no traces of sandboxes', async () => {
  const { driver } = faulty;
  expect(createsInWarmPods).toBeGreaterThan(rounds.length);
  await driver.call('reconcile', []);
  await driver.call('close');
  await until(async () => {
    const { freeWarm } = await readView(faulty.cluster, faulty.host.namespace);
    return freeWarm.length === 0;
  }, settleTimeoutMs);
  expect(await faulty.leftBesideWarmPods()).toEqual([]);
  await faulty.removeHelper();
  expect(await faulty.leftOnNode()).toEqual([]);
}, 600_000);
