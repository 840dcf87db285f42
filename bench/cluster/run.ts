import fs from 'node:fs';
import { kubernetesPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { type ImageFacts, readImageFacts } from '../../runtime/kubernetes/image-facts.ts';
import { annotations } from '../../runtime/kubernetes/names.ts';
import { DriverHost, pushAgentImage } from '../../test/kubernetes/support/driver-host.ts';
import { KubernetesCluster } from '../../test/kubernetes/support/kubernetes-cluster.ts';
import { pushBusybox } from '../../test/kubernetes/support/pods.ts';
import { type Summary, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { BarePods } from './bare-pods.ts';
import { firstOutput, measureMemoryPauses } from './memory-pauses.ts';
import { measureWarmPods } from './warm-pods.ts';

/**
 * Compares sandboxes as pods with bare pods of the same spec with one disk each, alternately on one node. `npm run
 * test:kubernetes` builds the cluster. `BENCH_TIMES=10`, `BENCH_AT_ONCE=200`; `BENCH_ENFORCED=1`: with a network plugin
 * that enforces policies.
 */
const times = Number(process.env.BENCH_TIMES ?? 10);
const atOnce = Number(process.env.BENCH_AT_ONCE ?? 200);
/** Concurrent starts belong to several accounts, because a single account gets half of the places. */
const accounts = 4;
/** With these requests, the pods and a node helper fit on one node with two processors. */
const requestShare = { cpu: 0.009, memory: 1 / 8 };

if (Object.values(kubernetesPrograms().dirs).every((dir) => fs.existsSync(dir))) await measure();
else console.log('\nNo bench of a cluster: `npm run test:kubernetes` builds what it needs');

async function measure(): Promise<void> {
  const cluster = await KubernetesCluster.start({ enforcesPolicies: process.env.BENCH_ENFORCED === '1' });
  let host: DriverHost | undefined;
  try {
    const [image, agentImage] = [await pushBusybox(cluster), await pushAgentImage(cluster.registry)];
    host = await DriverHost.open(cluster, agentImage, { requestShare });
    const bare = await BarePods.open(host, await readFacts(host, image), { requestShare });
    const floor = await oneAfterTheOther(host, bare, image);
    await measureWarmPods(cluster, { agentImage, image, floor }, times);
    await measureMemoryPauses(cluster, host, image, times);
    await allConcurrently(host, bare, image);
    await bare.close();
  } finally {
    await host?.close();
    await cluster.stop();
  }
}

/** @returns what bare pods took */
async function oneAfterTheOther(host: DriverHost, bare: BarePods, image: string): Promise<Summary> {
  const took = { bare: [], create: [], pause: [], resume: [] } as Record<string, number[]>;
  const phases = new Map<string, number[]>();
  for (let time = 0; time < times; time += 1) {
    const floor = await host.spec(image);
    took.bare!.push(await timed(() => bare.start(floor)));
    await bare.remove([floor]);

    const spec = await host.spec(image);
    const marks: [string, number][] = [];
    const startedMs = performance.now();
    took.create!.push(
      await timed(async () => {
        const onPhase = (phase: string) => void marks.push([phase, performance.now()]);
        await firstOutput(await host.driver.create(spec, { onPhase }), spec);
      }),
    );
    marks.push(['first output', performance.now()]);
    for (const [at, [, endMs]] of marks.entries()) {
      const name = at === 0 ? 'before' : marks[at - 1]![0];
      const from = at === 0 ? startedMs : marks[at - 1]![1];
      phases.set(name, [...(phases.get(name) ?? []), endMs - from]);
    }
    took.pause!.push(await timed(() => host.driver.pause(spec.sandboxId)));
    const again = { ...spec, run: 2 };
    took.resume!.push(await timed(async () => firstOutput(await host.driver.resume(again), again)));
    await host.driver.remove(spec.sandboxId);
  }
  const [floor, create] = [summarize(took.bare!), summarize(took.create!)];
  printTable('Sandboxes of a cluster, one after the other', [
    { measure: 'bare pod of the same spec with its disk → Ready', value: floor, unit: 'ms' },
    {
      measure: 'sandbox → first output',
      value: create,
      unit: 'ms',
      goal: holdAgainst(create.p50, floor.p50 + 150, 'ms'),
    },
    ...[...phases].map(([phase, values]): Row => ({ measure: `… ${phase}`, value: summarize(values), unit: 'ms' })),
    { measure: 'pause, which keeps the disk', value: summarize(took.pause!), unit: 'ms' },
    { measure: 'resume on the disk → first output', value: summarize(took.resume!), unit: 'ms' },
  ]);
  return floor;
}

async function allConcurrently(host: DriverHost, bare: BarePods, image: string): Promise<void> {
  const make = () =>
    Promise.all(Array.from({ length: atOnce }, (_, at) => host.spec(image, { accountId: `acc-${at % accounts}` })));
  const floors = await make();
  const floorMs = await timed(() => Promise.all(floors.map((spec) => bare.start(spec))));
  await bare.remove(floors);

  const specs = await make();
  const failures: unknown[] = [];
  const creates: number[] = [];
  const allMs = await timed(() =>
    Promise.all(
      specs.map(async (spec) => {
        const startedMs = performance.now();
        try {
          await firstOutput(await host.driver.create(spec), spec);
          creates.push(performance.now() - startedMs);
        } catch (error) {
          failures.push(error);
        }
      }),
    ),
  );
  const rate = (ms: number) => (atOnce * 1000) / ms;
  const share = rate(allMs) / rate(floorMs);
  printTable(`${atOnce} at once`, [
    { measure: 'bare pods', value: rate(floorMs).toFixed(2), unit: 'Ready/s' },
    {
      measure: 'sandboxes',
      value: rate(allMs).toFixed(2),
      unit: 'first outputs/s',
      goal: `≥ 0.8 × the bare pods: ${share.toFixed(2)} ×, ${share >= 0.8 ? 'met' : 'not met'}`,
    },
    { measure: 'sandbox → first output', value: summarize(creates), unit: 'ms' },
    { measure: 'failed', value: `${failures.length}`, unit: '', goal: failures.length === 0 ? '0: met' : '0: not met' },
  ]);
  for (const error of failures.slice(0, 3)) console.log(error);
}

/** The facts that a driver has determined about an image. */
async function readFacts(host: DriverHost, image: string): Promise<ImageFacts> {
  const spec = await host.spec(image);
  await host.driver.create(spec);
  const disk = { name: spec.sandboxId, namespace: host.namespace };
  const { metadata } = await host.core.readNamespacedPersistentVolumeClaim(disk);
  await host.driver.remove(spec.sandboxId);
  return readImageFacts(metadata!.annotations![annotations.image]!);
}
