import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Logger } from 'pino';
import type { SandboxExit } from '../runtime/driver.ts';
import { hostRestartedSignal, runtimeExitedSignal } from '../workflows/sandbox-messages.ts';

/** Tells workflows what a host saw. A fact is told until it has arrived, or until its workflow is over. */
export class SandboxFacts {
  readonly #client: Client;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();

  constructor(deps: { client: Client; logger: Logger }) {
    this.#client = deps.client;
    this.#logger = deps.logger;
  }

  /** Its processes ended by themselves. */
  async exited(exit: SandboxExit): Promise<void> {
    const { sandboxId, exitCode, outOfMemory, commandOutput } = exit;
    const fact = { exitCode, outOfMemory, commandOutput, at: new Date().toISOString() };
    await this.#tell(sandboxId, () => this.#client.workflow.getHandle(sandboxId).signal(runtimeExitedSignal, fact));
  }

  /** The host restarted under it. */
  async hostRestarted(sandboxId: string, at: Date): Promise<void> {
    const fact = { at: at.toISOString() };
    await this.#tell(sandboxId, () => this.#client.workflow.getHandle(sandboxId).signal(hostRestartedSignal, fact));
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #tell(sandboxId: string, send: () => Promise<void>): Promise<void> {
    for (let waitMs = 200; !this.#stopping.signal.aborted; waitMs = Math.min(waitMs * 2, 5000)) {
      try {
        return await send();
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return;
        this.#logger.warn({ err: error, sandboxId }, 'a fact could not be told to its workflow; trying again');
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  }
}
