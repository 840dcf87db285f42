import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Orm } from '../../db/orm.ts';
import type { ClaimedMove, DirectMoves } from '../../db/sandboxes/direct-moves.ts';
import { leaveToWorkflow } from '../../db/sandboxes/direct-news.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxDriver } from '../../runtime/driver.ts';
import type { AccountShares } from '../account-shares.ts';
import { type SpecSources, toSpec } from './spec.ts';

/** The maximum number of direct pauses and resumes at once. One beyond it is left to the workflow. */
const maxMoves = 200;
/** How long a stopping host waits for the moves in progress. */
const graceMs = 10_000;

/**
 * The pauses and resumes of sandboxes on this host that the API has claimed. A move that fails, or that comes too late,
 * is left to the workflow, which makes it again or undoes it.
 */
export class SandboxMoves {
  readonly #deps: SandboxMovesParts;
  readonly #inProgress = new Map<SandboxId, { ended: Promise<void>; stop: AbortController }>();
  #isStopped = false;

  constructor(deps: SandboxMovesParts) {
    this.#deps = deps;
  }

  /** @param requestId the id of the request for the move, for the log */
  async make(work: 'pause' | 'resume', sandboxId: SandboxId, requestId: string | null): Promise<void> {
    const { orm, logger, observeDirectWork } = this.#deps;
    const stop = new AbortController();
    const canBegin = !this.#isStopped && this.#inProgress.size < maxMoves && !this.#inProgress.has(sandboxId);
    const activity = `${work}Sandbox` as const;
    const made = canBegin
      ? observeDirectWork({ activity, sandboxId, requestId }, () => this.#make(work, sandboxId, stop.signal))
      : Promise.resolve(false);
    const ended = made
      .catch((error) => {
        logger.warn({ err: error, sandboxId, work }, 'a sandbox was not moved directly; its workflow decides');
        return false;
      })
      .then((isMade) => (isMade ? undefined : leaveToWorkflow(orm.em, sandboxId)))
      // The API waits for the news for a limited time.
      .catch((error) => logger.warn({ err: error, sandboxId }, 'a direct move could not be left to the workflow'));
    if (!canBegin) return ended;
    const move = { ended, stop };
    this.#inProgress.set(sandboxId, move);
    await ended;
    this.#inProgress.delete(sandboxId);
  }

  /** Waits until no direct move of the sandbox is in progress. */
  async join(sandboxId: SandboxId): Promise<void> {
    await this.#inProgress.get(sandboxId)?.ended;
  }

  /** Ends the direct move of a sandbox that is about to be stopped or removed. */
  async cancel(sandboxId: SandboxId): Promise<void> {
    this.#inProgress.get(sandboxId)?.stop.abort(new Error('The sandbox is ended'));
    await this.join(sandboxId);
  }

  /** Leaves new moves to the workflows, and waits for those in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    const moves = [...this.#inProgress.values()];
    const ended = Promise.all(moves.map((move) => move.ended));
    await Promise.race([ended, delay(graceMs, undefined, { ref: false })]);
    for (const { stop } of moves) stop.abort(new Error('The host is stopping'));
    await ended;
  }

  async #make(work: 'pause' | 'resume', sandboxId: SandboxId, signal: AbortSignal): Promise<boolean> {
    const { moves, hostId, shares } = this.#deps;
    const claimed = await moves.take(sandboxId, hostId, work);
    if (!claimed) return false;
    const takenMs = performance.now();
    // By the database's clock, so that a host whose clock is wrong writes the right time.
    const now = () => new Date(claimed.readAt.getTime() + Math.round(performance.now() - takenMs));
    return shares.run(claimed.row.accountId, signal, () =>
      work === 'pause' ? this.#pause(claimed, signal, now) : this.#resume(claimed, signal, now),
    );
  }

  async #pause(claimed: ClaimedMove, signal: AbortSignal, now: () => Date): Promise<boolean> {
    const { driver, moves } = this.#deps;
    const { kept } = await driver.pause(claimed.row.sandboxId, signal);
    return moves.finishPaused(claimed, now(), kept === 'memory');
  }

  async #resume(claimed: ClaimedMove, signal: AbortSignal, now: () => Date): Promise<boolean> {
    const { driver, moves } = this.#deps;
    const place = await driver.resume(toSpec(claimed.row, this.#deps), { signal });
    return moves.finishRunning(claimed, place, now());
  }
}

interface SandboxMovesParts extends SpecSources {
  hostId: string;
  orm: Orm;
  moves: DirectMoves;
  driver: SandboxDriver;
  shares: AccountShares;
  observeDirectWork: ObserveDirectWork;
  logger: Logger;
}

/** Runs direct work for the request that asked for it, and reports it like the activity of that name. */
export type ObserveDirectWork = <T>(
  work: { activity: string; sandboxId: SandboxId; requestId: string | null },
  run: () => Promise<T>,
) => Promise<T>;
