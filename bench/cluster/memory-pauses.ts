import type { SandboxDriver, SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import type { DriverHost } from '../../test/kubernetes/support/driver-host.ts';
import type { KubernetesCluster } from '../../test/kubernetes/support/kubernetes-cluster.ts';
import { InstalledNodeHelper } from '../../test/kubernetes/support/node-helper.ts';
import { LocalHost, shell } from '../../test/runtime/local-host.ts';
import { summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';

const goalOverLocalMs = 30;

/**
 * Measures pauses with the node helper and pauses of the local driver alternately. Each resume is measured until a
 * command has written.
 */
export async function measureMemoryPauses(
  cluster: KubernetesCluster,
  host: DriverHost,
  image: string,
  times: number,
): Promise<void> {
  const helper = await InstalledNodeHelper.install(cluster, host.namespace);
  const local = await LocalHost.open();
  try {
    const there = await PausedSandbox.create(host.driver, await host.spec(image));
    const here = await PausedSandbox.create(local.driver, local.spec());
    await helper.whenSeen({ name: there.sandboxId, namespace: host.namespace });
    for (let time = 0; time < times; time += 1) {
      await here.pauseAndResume();
      await there.pauseAndResume();
    }
    await host.driver.remove(there.sandboxId);
    const rows = (['pause', 'resume'] as const).flatMap((move) => {
      const [own, helped] = [summarize(here.took[move]), summarize(there.took[move])];
      const what = move === 'pause' ? 'pause' : 'resume → first output';
      const goal = holdAgainst(helped.p50, own.p50 + goalOverLocalMs, 'ms');
      return [
        { measure: `${what}, local driver`, value: own, unit: 'ms' },
        { measure: `${what}, node helper`, value: helped, unit: 'ms', goal },
      ];
    });
    printTable('Pauses of a cluster that keep the memory', rows);
  } finally {
    await local.close();
    await helper.remove();
  }
}

/** A sandbox that is repeatedly paused and resumed, with the durations in milliseconds. */
class PausedSandbox {
  readonly took: Record<'pause' | 'resume', number[]> = { pause: [], resume: [] };
  readonly #driver: SandboxDriver;
  #spec: SandboxSpec;

  private constructor(driver: SandboxDriver, spec: SandboxSpec) {
    this.#driver = driver;
    this.#spec = spec;
  }

  static async create(driver: SandboxDriver, spec: SandboxSpec): Promise<PausedSandbox> {
    await firstOutput(await driver.create(spec), spec);
    return new PausedSandbox(driver, spec);
  }

  get sandboxId() {
    return this.#spec.sandboxId;
  }

  async pauseAndResume(): Promise<void> {
    const pause = async () => {
      const { kept } = await this.#driver.pause(this.sandboxId);
      if (kept !== 'memory') throw new Error(`A pause kept the ${kept} alone`);
    };
    this.took.pause.push(await timed(pause));
    const spec = { ...this.#spec, run: this.#spec.run! + 1 };
    this.took.resume.push(await timed(async () => firstOutput(await this.#driver.resume(spec), spec)));
    this.#spec = spec;
  }
}

/** Waits until a command of the sandbox has written. */
export async function firstOutput(place: SandboxPlace, spec: SandboxSpec): Promise<void> {
  const { output } = await shell(place, spec, 'echo here');
  if (output !== 'here') throw new Error(`The sandbox said ${output}`);
}
