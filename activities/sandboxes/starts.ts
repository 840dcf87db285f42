import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/common';
import type { Logger } from 'pino';
import type { Orm } from '../../db/orm.ts';
import type { DirectMoves } from '../../db/sandboxes/direct-moves.ts';
import { leaveToWorkflow } from '../../db/sandboxes/direct-news.ts';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { firstRun, noLife } from '../../domain/sandboxes/life-plan.ts';
import type { MountCredentials, MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxSubstatus } from '../../domain/sandboxes/state.ts';
import type { CreatePhase, SandboxDriver, SandboxPlace } from '../../runtime/driver.ts';
import type { AccountShares } from '../account-shares.ts';
import { hasStarted } from './life.ts';
import type { ObserveDirectWork } from './moves.ts';
import { type SpecSources, toSpec } from './spec.ts';

/** The current place of a sandbox. */
export interface HostedPlace {
  address: string;
  agentPort: number;
  /** The current slots of its mounts, if it has or had mounts. */
  slots?: MountSlot[];
}

export interface StartedPlace extends HostedPlace {
  /** When the row became `running`, in Unix milliseconds. Absent: the workflow has to write it. */
  runningSinceMs?: number;
}

/** The maximum number of direct starts at once. A start beyond it is left to the workflow, whose activities queue. */
const maxDirectStarts = 200;
/** How long a failed direct start is kept, so that the workflow's first attempt gets its error without a second start. */
const keepFailureMs = 60_000;
/** How long a stopping host waits for direct starts. */
const graceMs = 10_000;

interface DirectStart {
  /** Null: the start is left to the workflow. */
  outcome: Promise<StartedPlace | null>;
  stop: AbortController;
}

/**
 * The first starts of sandboxes on this host. A start begins directly, when its admission is committed, or in the
 * activity of the sandbox's workflow. In both cases `claimStart` or `begin` moves the row to `starting` first. A direct
 * start also writes `running`, for the workflow may not exist yet. An activity joins the direct start of its sandbox.
 */
export class SandboxStarts {
  readonly #deps: SandboxStartsParts;
  readonly #direct = new Map<SandboxId, DirectStart>();
  #running = 0;
  #isStopped = false;

  constructor(deps: SandboxStartsParts) {
    this.#deps = deps;
  }

  /**
   * Starts a sandbox that an admission has announced. If it does not run afterwards, the workflow starts it.
   * @param requestId the id of the create's request, for the log
   */
  async startDirectly(sandboxId: SandboxId, requestId: string | null): Promise<void> {
    const { orm, logger, observeDirectWork } = this.#deps;
    const stop = new AbortController();
    try {
      if (this.#isStopped || this.#running >= maxDirectStarts) return await leaveToWorkflow(orm.em, sandboxId);
      if (this.#direct.has(sandboxId)) return;
      this.#running += 1;
      const work = { activity: 'startSandbox', sandboxId, requestId };
      const outcome = observeDirectWork(work, () => this.#runDirectly(sandboxId, stop.signal)).finally(() => {
        this.#running -= 1;
      });
      const direct = { outcome, stop };
      this.#direct.set(sandboxId, direct);
      try {
        const place = await outcome;
        this.#forget(sandboxId, direct);
        if (!place) await leaveToWorkflow(orm.em, sandboxId);
      } catch (error) {
        logger.warn({ err: error, sandboxId }, 'a sandbox did not start directly; its workflow decides');
        setTimeout(() => this.#forget(sandboxId, direct), keepFailureMs).unref();
        await leaveToWorkflow(orm.em, sandboxId);
      }
    } catch (error) {
      // The API waits for the news for a limited time.
      logger.warn({ err: error, sandboxId }, 'a direct start could not be left to the workflow');
    }
  }

  /**
   * Starts a sandbox for its workflow, or joins its direct start.
   * @throws {ApplicationFailure} `no_life`, and the errors of the driver
   */
  async start(
    sandboxId: SandboxId,
    sealedCredentials: string | null,
    run: number,
    signal: AbortSignal,
  ): Promise<StartedPlace> {
    const joined = run === firstRun ? await this.#join(sandboxId, signal) : null;
    if (joined) return joined;
    const { life, secrets } = this.#deps;
    const row = await life.begin(sandboxId, run);
    if (!row) return this.#findRunning(sandboxId, run);
    const credentials = sealedCredentials ? secrets.openFor<Credentials>(sandboxId, sealedCredentials) : {};
    return this.#create(row, credentials, signal);
  }

  /** Ends the direct start of a sandbox that is about to be stopped or removed, and waits for its end. */
  async cancel(sandboxId: SandboxId): Promise<void> {
    const direct = this.#direct.get(sandboxId);
    if (!direct) return;
    direct.stop.abort(new Error('The sandbox is ended'));
    await direct.outcome.catch(() => undefined);
    this.#forget(sandboxId, direct);
  }

  /** Leaves new direct starts to the workflows, and waits for those in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    const starts = [...this.#direct.values()];
    const ended = Promise.allSettled(starts.map(({ outcome }) => outcome));
    await Promise.race([ended, delay(graceMs, undefined, { ref: false })]);
    for (const { stop } of starts) stop.abort(new Error('The host is stopping'));
    await ended;
  }

  async #runDirectly(sandboxId: SandboxId, signal: AbortSignal): Promise<StartedPlace | null> {
    const { moves, hostId, driver, logger } = this.#deps;
    const heardAt = { unixMs: Date.now(), ms: performance.now() };
    const claimed = await moves.claimStart(sandboxId, hostId);
    if (!claimed) return null;
    const claimedAtMs = performance.now();
    const place = await this.#create(claimed.row, {}, signal);
    signal.throwIfAborted();
    const readyAtMs = performance.now();
    // By the database's clock, so that a host whose clock is wrong writes the right time.
    const at = new Date(claimed.readAt.getTime() + Math.round(readyAtMs - claimedAtMs));
    if (await moves.finishRunning(claimed, place, at)) {
      const steps = {
        claimed: claimedAtMs - heardAt.ms,
        created: readyAtMs - claimedAtMs,
        recorded: performance.now() - readyAtMs,
      };
      logger.debug({ sandboxId, heardAtMs: heardAt.unixMs, steps }, 'direct start');
      return { ...place, runningSinceMs: at.getTime() };
    }
    // The sandbox has ended or moved to another host meanwhile.
    await driver.remove(sandboxId);
    return null;
  }

  /** Waits for the direct start of a sandbox. Null: there is none, or it was left to the workflow. */
  async #join(sandboxId: SandboxId, signal: AbortSignal): Promise<StartedPlace | null> {
    const direct = this.#direct.get(sandboxId);
    if (!direct) return null;
    const cancel = () => direct.stop.abort(signal.reason);
    if (signal.aborted) cancel();
    signal.addEventListener('abort', cancel);
    try {
      return await direct.outcome;
    } finally {
      signal.removeEventListener('abort', cancel);
      this.#forget(sandboxId, direct);
    }
  }

  #forget(sandboxId: SandboxId, direct: DirectStart): void {
    if (this.#direct.get(sandboxId) === direct) this.#direct.delete(sandboxId);
  }

  /** The place of a sandbox that a direct start has started before its workflow began. */
  async #findRunning(sandboxId: SandboxId, run: number): Promise<StartedPlace> {
    const row = await this.#deps.life.find(sandboxId);
    if (!row || run !== firstRun || !hasStarted(row) || row.hostId !== this.#deps.hostId) {
      throw ApplicationFailure.nonRetryable(`There is no sandbox ${sandboxId} to start`, noLife);
    }
    return {
      ...{ address: row.agentAddress!, agentPort: row.agentPort! },
      runningSinceMs: row.startedAt.getTime(),
    };
  }

  /** Creates the sandbox and records each step. Returns when the sandbox is ready. */
  async #create(row: Sandbox, credentials: Credentials, signal: AbortSignal): Promise<HostedPlace> {
    const { life, driver, shares } = this.#deps;
    const { sandboxId, accountId, objectStorage } = row;
    const spec = toSpec(row, this.#deps, { slots: objectStorage, credentials, bestEffort: false });
    const steps = new StartSteps((step) => life.step(sandboxId, 'starting', step), this.#deps.onStep);
    const onPhase = (phase: CreatePhase) => steps.enter(phase);
    return shares.run(accountId, signal, async () => {
      try {
        const place = await driver.create(spec, { signal, onPhase });
        await steps.end();
        return toHostedPlace(place);
      } finally {
        steps.stop();
      }
    });
  }
}

interface SandboxStartsParts extends SpecSources {
  hostId: string;
  orm: Orm;
  life: SandboxLifeRepository;
  moves: DirectMoves;
  driver: SandboxDriver;
  shares: AccountShares;
  /** Called with the duration of each step of a start. */
  onStep?: (step: SandboxSubstatus, ms: number) => void;
  observeDirectWork: ObserveDirectWork;
  logger: Logger;
}

type Credentials = Record<number, MountCredentials>;

export function toHostedPlace({ address, agentPort, slots }: SandboxPlace): HostedPlace {
  return { address, agentPort, ...(slots && { slots }) };
}

/**
 * Steps are written only for starts that take longer than this. Most starts are shorter, and each write would slow down
 * the create.
 */
const writtenAfterMs = 50;

/**
 * Writes the steps of one start to its row, concurrently with the work. Writes only the latest step, at most once in
 * `writtenAfterMs`.
 */
class StartSteps {
  readonly #write: (step: CreatePhase) => Promise<void>;
  #latest: CreatePhase | null = null;
  #timer: NodeJS.Timeout | undefined;
  #written: Promise<void> = Promise.resolve();
  readonly #onStep: (step: SandboxSubstatus, ms: number) => void;
  #present: { step: SandboxSubstatus; sinceMs: number } = { step: 'allocating', sinceMs: performance.now() };

  /** @param onStep called at the end of each step with the duration of the step */
  constructor(
    write: (step: CreatePhase) => Promise<void>,
    onStep: (step: SandboxSubstatus, ms: number) => void = () => undefined,
  ) {
    this.#write = write;
    this.#onStep = onStep;
  }

  enter(step: CreatePhase): void {
    this.#endStep();
    this.#present = { step, sinceMs: performance.now() };
    this.#latest = step;
    this.#timer ??= setTimeout(() => this.#writeLatest(), writtenAfterMs);
  }

  /** Stops further writes. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Stops further writes and waits for the current one. @throws the error of a write */
  async end(): Promise<void> {
    this.#endStep();
    this.stop();
    await this.#written;
  }

  #endStep(): void {
    this.#onStep(this.#present.step, performance.now() - this.#present.sinceMs);
  }

  #writeLatest(): void {
    this.#timer = undefined;
    const step = this.#latest!;
    this.#written = this.#written.then(() => this.#write(step));
    // `end` throws the error.
    this.#written.catch(() => {});
  }
}
