import { setTimeout as delay } from 'node:timers/promises';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Logger } from 'pino';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxExit } from '../../runtime/driver.ts';
import { type HostReport, hostReportSignal } from '../../workflows/sandboxes/life/messages.ts';

const firstRetryMs = 200;
const longestRetryMs = 5000;
/** How long a report waits for the start of its workflow. Reconciliation repeats reports of sandboxes that live on. */
const notStartedMs = 60_000;

/**
 * Reports a host's observations of sandboxes to their workflows. Each method retries until Temporal has accepted the
 * report or the workflow has closed.
 */
export class SandboxFacts {
  readonly #client: Client;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();

  constructor(deps: { client: Client; logger: Logger }) {
    this.#client = deps.client;
    this.#logger = deps.logger;
  }

  /**
   * The sandbox's processes have ended. If the end was not recorded, the host caused it.
   * @throws {Error} when the host stops before the report is accepted
   */
  async exited(found: SandboxExit): Promise<void> {
    const { sandboxId, run, exitCode, outOfMemory, commandOutput } = found;
    const at = new Date();
    if (exitCode === null) return this.memoryLost(sandboxId, run, at);
    const exit = { exitCode, outOfMemory, commandOutput, at: at.toISOString() };
    await this.#report(sandboxId, { kind: 'exited', run, exit });
  }

  /**
   * The sandbox's processes are gone, and its disk is there.
   * @param at when the processes last ran
   * @throws {Error} when the host stops before the report is accepted
   */
  async memoryLost(sandboxId: SandboxId, run: number | null, at: Date): Promise<void> {
    await this.#report(sandboxId, { kind: 'memoryLost', run, at: at.toISOString() });
  }

  /**
   * Nothing of the sandbox is left on this host, and its disk is gone too.
   * @throws {Error} when the host stops before the report is accepted
   */
  async diskLost(sandboxId: SandboxId, run: number | null): Promise<void> {
    await this.#report(sandboxId, { kind: 'diskLost', run });
  }

  /**
   * The disk of the host is nearly full, so the host has frozen or ended the sandbox's processes.
   * @throws {Error} when the host stops before the report is accepted
   */
  async diskPressure(sandboxId: SandboxId, { run, ended }: { run: number | null; ended: boolean }): Promise<void> {
    await this.#report(sandboxId, { kind: 'diskPressure', run, ended });
  }

  stop(): void {
    this.#stopping.abort(new Error('the host is stopping'));
  }

  async #report(sandboxId: SandboxId, report: HostReport): Promise<void> {
    const { signal } = this.#stopping;
    const notStartedUntilMs = performance.now() + notStartedMs;
    for (let waitMs = firstRetryMs; ; waitMs = Math.min(waitMs * 2, longestRetryMs)) {
      signal.throwIfAborted();
      try {
        return await this.#client.workflow.getHandle(sandboxId).signal(hostReportSignal, report);
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) {
          if (performance.now() > notStartedUntilMs || (await this.#hasClosed(sandboxId))) return;
        } else this.#logger.warn({ err: error, sandboxId }, 'a report could not be sent to its workflow; trying again');
      }
      await delay(waitMs, undefined, { signal });
    }
  }

  /**
   * Temporal gives the same error for a closed workflow and for one that is not started yet, as after a direct start.
   * `describe` fails only for the latter.
   */
  async #hasClosed(sandboxId: SandboxId): Promise<boolean> {
    try {
      await this.#client.workflow.getHandle(sandboxId).describe();
      return true;
    } catch {
      return false;
    }
  }
}
