import type { SandboxId } from '../../domain/ids.ts';
import { AgentRestarts } from '../agent-restarts.ts';
import type { CancellableWork } from '../cancellable-work.ts';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { Cgroups } from './cgroups.ts';
import type { ContainerRunner } from './container-runner.ts';
import type { Fence } from './fence.ts';
import type { SandboxRecords } from './sandbox-records.ts';
import type { SandboxStarter } from './sandbox-starter.ts';

/** The time limit to find the image, which is already on the disk, and to pass on the boot document. */
const agentRestartTimeoutMs = 10_000;

/** Finds the sandboxes that run without their agent, and restarts it. */
export class LostAgents {
  readonly #records: SandboxRecords;
  readonly #runner: ContainerRunner;
  readonly #cgroups: Cgroups;
  readonly #fence: Fence;
  readonly #work: CancellableWork;
  readonly #starter: SandboxStarter;
  readonly #restarts: AgentRestarts;

  constructor(parts: {
    records: SandboxRecords;
    runner: ContainerRunner;
    cgroups: Cgroups;
    fence: Fence;
    work: CancellableWork;
    starter: SandboxStarter;
    logger: DriverLogger;
  }) {
    this.#records = parts.records;
    this.#runner = parts.runner;
    this.#cgroups = parts.cgroups;
    this.#fence = parts.fence;
    this.#work = parts.work;
    this.#starter = parts.starter;
    this.#restarts = new AgentRestarts(parts.logger);
  }

  /** As `HostDriver.withoutAgent`. */
  lost(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    return [...sandboxIds].filter(
      (sandboxId) =>
        !this.#work.isBusyWith(sandboxId) && this.#restarts.isDue(sandboxId) && this.#isAgentGone(sandboxId),
    );
  }

  /** As `HostDriver.restartAgent`. */
  async restart(spec: SandboxSpec): Promise<void> {
    const { sandboxId } = spec;
    const folder = this.#records.sandboxFolder(sandboxId);
    await this.#restarts.run(
      spec,
      () =>
        this.#work.run(sandboxId, AbortSignal.timeout(agentRestartTimeoutMs), async (signal) => {
          return this.#isAgentGone(sandboxId) && this.#starter.restartAgent({ spec, folder, signal });
        }),
      () => !this.#isAgentGone(sandboxId),
    );
  }

  /** Whether the sandbox runs without its agent. False for frozen processes, in which nothing can be started. */
  #isAgentGone(sandboxId: SandboxId): boolean {
    const record = this.#records.get(sandboxId);
    if (record?.phase !== 'ready') return false;
    if (!this.#runner.isAgentGone(this.#records.sandboxFolder(sandboxId))) return false;
    return !this.#fence.isClosed && !this.#cgroups.freezer.isFrozen(record.instance);
  }

  /** Call this when a sandbox is removed. */
  forget(sandboxId: SandboxId): void {
    this.#restarts.forget(sandboxId);
  }
}
