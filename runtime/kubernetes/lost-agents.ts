import type { SandboxId } from '../../domain/ids.ts';
import { AgentRestarts } from '../agent-restarts.ts';
import type { CancellableWork } from '../cancellable-work.ts';
import type { SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { AgentProbes, refusesConnections } from './agent-probes.ts';
import type { ImageInspector } from './image-inspector.ts';
import { isFreezeWanted } from './names.ts';
import { findAddress } from './pod-state.ts';
import type { SandboxStarter } from './sandbox-starter.ts';

/** How long the driver may take to send the boot document to a new agent. */
const agentRestartTimeoutMs = 20_000;

/** Finds the sandboxes that run without their agent, and restarts it. */
export class LostAgents {
  readonly #work: CancellableWork;
  readonly #starter: SandboxStarter;
  readonly #images: ImageInspector;
  readonly #probes = new AgentProbes();
  readonly #restarts: AgentRestarts;

  constructor(parts: { work: CancellableWork; starter: SandboxStarter; images: ImageInspector; logger: DriverLogger }) {
    this.#work = parts.work;
    this.#starter = parts.starter;
    this.#images = parts.images;
    this.#restarts = new AgentRestarts(parts.logger);
  }

  /** As `HostDriver.withoutAgent`. Each call returns the result of an earlier check and starts the next one. */
  lost(sandboxIds: Iterable<SandboxId>): SandboxId[] {
    const idle = [...sandboxIds].filter((sandboxId) => !this.#work.isBusyWith(sandboxId));
    const places = idle.flatMap((sandboxId) => {
      const pod = this.#starter.readyPod(sandboxId);
      return pod && !isFreezeWanted(pod) ? [{ sandboxId, address: findAddress(pod)!, port: agentPort }] : [];
    });
    this.#probes.check(places);
    return idle.filter((sandboxId) => this.#probes.isGone(sandboxId) && this.#restarts.isDue(sandboxId));
  }

  /** As `HostDriver.restartAgent`. */
  async restart(spec: SandboxSpec): Promise<void> {
    const { sandboxId } = spec;
    const isGone = async () => {
      const pod = this.#starter.readyPod(sandboxId);
      return pod !== null && (await refusesConnections(findAddress(pod)!, agentPort));
    };
    await this.#restarts.run(
      spec,
      () =>
        this.#work.run(sandboxId, AbortSignal.timeout(agentRestartTimeoutMs), async (signal) => {
          const pod = this.#starter.readyPod(sandboxId);
          if (!pod || !(await isGone())) return false;
          // The template's command already ran when the sandbox started.
          await this.#starter.boot(pod, { ...spec, command: null }, await this.#images.readFacts(spec, signal), signal);
          return true;
        }),
      async () => !(await isGone()),
    );
  }

  /** Call this when a sandbox is removed. */
  forget(sandboxId: SandboxId): void {
    this.#restarts.forget(sandboxId);
  }

  close(): Promise<void> {
    return this.#probes.close();
  }
}
