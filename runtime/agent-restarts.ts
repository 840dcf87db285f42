import { FairSemaphore, type Permit } from '../domain/fair-semaphore.ts';
import type { SandboxId } from '../domain/ids.ts';
import type { SandboxSpec } from './driver.ts';
import type { DriverLogger } from './driver-logger.ts';
import { until } from './process/until.ts';

/** An agent that has run for this long starts with the shortest wait again. */
const steadyMs = 60_000;
const firstWaitMs = 1000;
const longestWaitMs = 10_000;
const startSeconds = 5;
/** The number of agents that restart at once, in total and of one account. */
const width = 2;
const widthOfAccount = 1;

interface Restarts {
  /** Consecutive restarts. */
  count: number;
  lastMs: number;
  isInProgress: boolean;
}

/**
 * Decides when ended agents are restarted: at once, then after waits that double. So a sandbox that keeps ending its
 * agent costs its host little.
 */
export class AgentRestarts {
  readonly #logger: DriverLogger;
  readonly #restarts = new Map<SandboxId, Restarts>();
  readonly #turns = new FairSemaphore(width, widthOfAccount);

  constructor(logger: DriverLogger) {
    this.#logger = logger;
  }

  /** Whether the agent of this sandbox may be restarted now. */
  isDue(sandboxId: SandboxId): boolean {
    const before = this.#restarts.get(sandboxId);
    if (!before) return true;
    const waitMs = Math.min(longestWaitMs, firstWaitMs * 2 ** (before.count - 1));
    return !before.isInProgress && performance.now() - before.lastMs >= waitMs;
  }

  /**
   * Restarts an agent. A failure is logged.
   * @param start returns whether there was an agent to start
   * @param isThere whether the agent runs; until then it is not restarted again
   */
  async run(
    { sandboxId, accountId }: SandboxSpec,
    start: () => Promise<boolean>,
    isThere: () => boolean | Promise<boolean>,
  ): Promise<void> {
    const before = this.#restarts.get(sandboxId);
    const isSteady = before !== undefined && performance.now() - before.lastMs > steadyMs;
    const now = { count: before && !isSteady ? before.count + 1 : 1, lastMs: performance.now(), isInProgress: true };
    this.#restarts.set(sandboxId, now);
    let turn: Permit | undefined;
    try {
      turn = await this.#turns.take(accountId, AbortSignal.timeout(longestWaitMs));
      if (!(await start())) return;
      turn.release();
      await until(isThere, { timeoutSeconds: startSeconds, everyMs: 10 });
      this.#logger.warn({ sandboxId, count: now.count }, 'the agent of a sandbox had ended and was restarted');
    } catch (error) {
      this.#logger.warn({ err: error, sandboxId, count: now.count }, 'the agent of a sandbox could not be restarted');
    } finally {
      turn?.release();
      now.lastMs = performance.now();
      now.isInProgress = false;
    }
  }

  forget(sandboxId: SandboxId): void {
    this.#restarts.delete(sandboxId);
  }
}
