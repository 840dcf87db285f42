import type { SandboxDriver, SandboxSpec } from '../../runtime/driver.ts';
import { DriverHost } from '../../test/kubernetes/support/driver-host.ts';
import type { KubernetesCluster } from '../../test/kubernetes/support/kubernetes-cluster.ts';
import { LocalHost } from '../../test/runtime/local-host.ts';
import { until } from '../../test/support/until.ts';
import { summarize } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { firstOutput } from './memory-pauses.ts';

const goalOverLocalMs = 60;
const kept = 2;
/** The size of members of the local pool's disks. */
const localStorageGb = 10;

/** Creates from warm pods beside those from the local driver's pool, in turns, each until a command has written. */
export async function measureWarmPods(
  cluster: KubernetesCluster,
  { agentImage, image, floor }: { agentImage: string; image: string; floor: { p50: number } },
  times: number,
): Promise<void> {
  const base = { image, cpuCount: 1, memoryMb: 256, storageGb: 1 };
  const local = await LocalHost.open({ warmPoolSize: kept });
  let host: DriverHost | undefined;
  try {
    host = await DriverHost.open(cluster, agentImage);
    await host.driver.close();
    await host.addVolumes(times + 2 * kept + 4);
    await host.start({ warm: { size: { least: kept, most: kept }, base } });
    const [here, there] = [new PooledCreates(local.driver), new PooledCreates(host.driver)];
    for (let time = 0; time < times; time += 1) {
      await until(() => local.driver.poolReady >= kept && host!.driver.poolReady >= kept, 180_000);
      await here.create(local.spec({ storageGb: localStorageGb }));
      await until(() => local.driver.poolReady >= kept, 180_000);
      await there.create(await host.spec(image));
    }
    const [own, warm] = [summarize(here.took), summarize(there.took)];
    const steps = [...there.steps].map(([step, values]): Row => {
      return { measure: `… ${step}`, value: summarize(values), unit: 'ms' };
    });
    printTable('Creates of a cluster from warm pods', [
      { measure: 'bare pod of the same spec with its disk → Ready, p50', value: floor.p50.toFixed(0), unit: 'ms' },
      { measure: "create → first output, local driver's pool", value: own, unit: 'ms' },
      {
        measure: 'create → first output, warm pod',
        value: warm,
        unit: 'ms',
        goal: holdAgainst(warm.p50, own.p50 + goalOverLocalMs, 'ms'),
      },
      ...steps,
    ]);
  } finally {
    await local.close();
    await host?.close();
  }
}

/** Creates of one driver that found a pool, with the milliseconds that they took. */
class PooledCreates {
  readonly took: number[] = [];
  readonly steps = new Map<string, number[]>();
  readonly #driver: SandboxDriver;

  constructor(driver: SandboxDriver) {
    this.#driver = driver;
  }

  async create(spec: SandboxSpec): Promise<void> {
    const startedMs = performance.now();
    const marks: [string, number][] = [['before', startedMs]];
    const onPhase = (phase: string) => void marks.push([phase, performance.now()]);
    const place = await this.#driver.create(spec, { onPhase });
    if (place.from !== 'pool') throw new Error(`A create that should find a pool was ${place.from}`);
    marks.push(['first output', performance.now()]);
    await firstOutput(place, spec);
    const endMs = performance.now();
    this.took.push(endMs - startedMs);
    for (const [at, [step, fromMs]] of marks.entries()) {
      const ms = (marks[at + 1]?.[1] ?? endMs) - fromMs;
      this.steps.set(step, [...(this.steps.get(step) ?? []), ms]);
    }
    await this.#driver.remove(spec.sandboxId);
  }
}
