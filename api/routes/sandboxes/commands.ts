import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, type UpdateDefinition } from '@temporalio/common';
import type { Logger } from 'pino';
import { newId } from '../../../db/core/new-id.ts';
import { removeStart, requestStart } from '../../../db/core/outbox.ts';
import { hasLease } from '../../../db/hosts/hosts.ts';
import type { Orm } from '../../../db/orm.ts';
import { toLifeStart } from '../../../db/sandboxes/admission.ts';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxStatus } from '../../../db/sandboxes/sandbox-status.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { firstRun, type LifeStart } from '../../../domain/sandboxes/life-plan.ts';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import { isOver, type SandboxStatus } from '../../../domain/sandboxes/state.ts';
import type { TimeoutChange, TimeoutReply } from '../../../domain/sandboxes/timeout-change.ts';
import type { BatchEndingInput } from '../../../domain/workflow-registry.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import type { sandboxBatchEnding } from '../../../workflows/sandboxes/batch-ending.ts';
import type { sandboxDeletion } from '../../../workflows/sandboxes/deletion.ts';
import {
  addPortUpdate,
  adoptUpdate,
  connectUpdate,
  movedDirectlySignal,
  pauseUpdate,
  removePortUpdate,
  restartUpdate,
  resumeUpdate,
  settledUpdate,
  storageCredentialsUpdate,
  terminateUpdate,
  timeoutUpdate,
} from '../../../workflows/sandboxes/life/messages.ts';
import type { sandbox as sandboxWorkflow } from '../../../workflows/sandboxes/life/workflow.ts';
import { isFailing, workflowError, workflowFailing } from '../../plugins/workflow-errors.ts';
import type { ClaimedMoves } from './claimed-moves.ts';
import { MergedTimeoutChanges } from './merged-timeout-changes.ts';
import type { ExpectedNews } from './sandbox-news.ts';

interface StartOptions {
  wait: boolean;
  sealedCredentials?: string | null;
  news?: ExpectedNews | null;
}

/**
 * The commands that routes send to sandboxes. Each becomes an update of the sandbox's workflow, or a claimed move that
 * the workflow adopts afterwards. If the sandbox has ended, its row gives the answer. Every method throws `AppError`
 * with the code for the caller.
 */
export interface SandboxCommands {
  /**
   * Starts the workflow of an admitted row. With `wait`, returns when the sandbox runs or has failed.
   * @param options.sealedCredentials the credentials of its mounts, encrypted for its host
   * @param options.news the result of its direct start
   */
  start(sandbox: Sandbox, options: StartOptions): Promise<void>;
  pause(sandbox: Sandbox, options: { wait: boolean }): Promise<void>;
  resume(sandbox: Sandbox, options: { wait: boolean; storage?: StorageChange }): Promise<void>;
  /** Ends its processes and starts it again on its disk. */
  restart(sandbox: Sandbox, options: { storage: StorageChange | null }): Promise<void>;
  connect(sandbox: Sandbox, options: { timeoutSeconds: number | null }): Promise<void>;
  setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply>;
  /** Adds an own port to a running sandbox. */
  addPort(sandbox: Sandbox, port: Port): Promise<void>;
  /** Removes an own port by its number. */
  removePort(sandbox: Sandbox, port: number): Promise<void>;
  /** `alreadyTerminated`: there was nothing to end. */
  terminate(sandbox: Sandbox, options: { forget: boolean }): Promise<{ alreadyTerminated: boolean }>;
  /** Ensures that all of them will end, and returns before they have ended. */
  endBatch(sandboxes: readonly Sandbox[], options: { forget: boolean }): Promise<void>;
}

/** Whether a terminate has nothing to end and nothing to forget. */
export function isAlreadyTerminated(status: SandboxStatus | undefined, forget: boolean): boolean {
  return status === 'terminated' && !forget;
}

/** How long a create waits for the relay if Temporal was unreachable at first. */
const startTimeoutMs = 60_000;

/** How often a command is sent again if the worker did not process it. */
const unprocessedTries = 6;

/** Sends commands to the workflows of sandboxes. Any replica may send any command. */
export class TemporalSandboxCommands implements SandboxCommands {
  readonly #client: Client;
  readonly #orm: Orm;
  readonly #logger: Logger;
  /** Null: every move goes through the workflow. */
  readonly #claimedMoves: ClaimedMoves | null;
  readonly #inFlight = new CommandsInFlight();
  readonly #timeouts = new MergedTimeoutChanges((sandbox, change) => this.#command(sandbox, timeoutUpdate, [change]));
  /** Starts of workflows for sandboxes that run already. */
  readonly #following = new Map<SandboxId, Promise<void>>();
  /** Terminations without a reply, by sandbox and `forget`. */
  readonly #terminations = new Map<string, Promise<{ alreadyTerminated: boolean }>>();

  constructor(deps: { client: Client; orm: Orm; logger: Logger; claimedMoves?: ClaimedMoves }) {
    this.#client = deps.client;
    this.#orm = deps.orm;
    this.#logger = deps.logger;
    this.#claimedMoves = deps.claimedMoves ?? null;
  }

  async start(sandbox: Sandbox, { wait, sealedCredentials, news }: StartOptions): Promise<void> {
    const { sandboxId } = sandbox;
    const started = await news?.result(firstRun);
    if (started?.status === 'running') return this.#followStart(sandbox, started.sinceMs);
    const untilMs = Date.now() + startTimeoutMs;
    const options = sandboxStart(sandbox);
    try {
      if (sealedCredentials) {
        await this.#bringCredentials(sandbox, sealedCredentials, { wait, untilMs });
      } else if (wait) {
        await this.#client.workflow.executeUpdateWithStart(settledUpdate, {
          startWorkflowOperation: new WithStartWorkflowOperation<typeof sandboxWorkflow>('sandbox', {
            ...options,
            workflowIdConflictPolicy: 'USE_EXISTING',
          }),
        });
      } else await this.#client.workflow.start<typeof sandboxWorkflow>('sandbox', options);
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return;
      // The sandbox is admitted, and the outbox starts it as soon as Temporal is reachable again.
      this.#logger.warn(
        { err: error, sandboxId },
        'the sandbox workflow could not be started at once; left to the relay',
      );
      if (wait) await this.#waitForRow(sandboxId, untilMs);
      return;
    }
    this.#removeStart(sandboxId);
  }

  /** Starts the workflow of a sandbox that runs already. The request does not wait for it, but later commands do. */
  #followStart(sandbox: Sandbox, sinceMs: number): void {
    const { sandboxId } = sandbox;
    const options = sandboxStart(sandbox, { run: firstRun, sinceMs });
    const following = this.#client.workflow
      .start<typeof sandboxWorkflow>('sandbox', options)
      .then(() => this.#removeStart(sandboxId))
      .catch((error) => {
        if (error instanceof WorkflowExecutionAlreadyStartedError) return;
        this.#logger.warn({ err: error, sandboxId }, 'the workflow of a running sandbox is left to the relay');
      })
      .finally(() => this.#following.delete(sandboxId));
    this.#following.set(sandboxId, following);
  }

  /** The request does not wait for this. If it fails, the relay finds that the workflow is already started. */
  #removeStart(sandboxId: SandboxId): void {
    removeStart(this.#orm.em, sandboxId).catch((error) => {
      this.#logger.warn({ err: error, sandboxId }, 'the start of a sandbox could not be removed from the outbox');
    });
  }

  async pause(sandbox: Sandbox, { wait }: { wait: boolean }): Promise<void> {
    await this.#inFlight.send(sandbox.sandboxId, async () => {
      if (wait && (await this.#moveDirectly('pause', sandbox))) return;
      await this.#update(sandbox, pauseUpdate, [{ wait }]);
    });
  }

  async resume(sandbox: Sandbox, options: { wait: boolean; storage?: StorageChange }): Promise<void> {
    await this.#inFlight.send(sandbox.sandboxId, async () => {
      const canBeDirect = options.wait && !options.storage;
      if (canBeDirect && (await this.#moveDirectly('resume', sandbox))) return;
      await this.#requireHost(sandbox);
      await this.#update(sandbox, resumeUpdate, [options]);
    });
  }

  /**
   * Moves a stable sandbox without its workflow, which hears of it afterwards.
   * @returns false when the workflow has to make the move
   */
  async #moveDirectly(work: 'pause' | 'resume', sandbox: Sandbox): Promise<boolean> {
    const outcome = (await this.#claimedMoves?.make(work, sandbox)) ?? 'not claimed';
    if (outcome === 'not claimed') return false;
    if (outcome === 'made') {
      this.#tellMoved(sandbox.sandboxId);
      return true;
    }
    const { status } = await this.#deliver(sandbox, adoptUpdate, [{ takeOver: true }]);
    return status === (work === 'pause' ? 'paused' : 'running');
  }

  /** The request does not wait for this. If it fails, the relay tells the workflow later. */
  async #tellMoved(sandboxId: SandboxId): Promise<void> {
    try {
      await this.#following.get(sandboxId);
      await this.#client.workflow.getHandle(sandboxId).signal(movedDirectlySignal, { takeOver: false });
    } catch (error) {
      this.#logger.warn({ err: error, sandboxId }, 'the workflow of a moved sandbox is left to the relay');
    }
  }

  async restart(sandbox: Sandbox, options: { storage: StorageChange | null }): Promise<void> {
    await this.#requireHost(sandbox);
    await this.#command(sandbox, restartUpdate, [options]);
  }

  async connect(sandbox: Sandbox, { timeoutSeconds }: { timeoutSeconds: number | null }): Promise<void> {
    if (sandbox.status === 'paused') await this.#requireHost(sandbox);
    await this.#command(sandbox, connectUpdate, [{ timeoutSeconds }]);
  }

  setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply> {
    return this.#timeouts.change(sandbox, change);
  }

  addPort(sandbox: Sandbox, port: Port): Promise<void> {
    return this.#command(sandbox, addPortUpdate, [port]).catch(asNotRunning);
  }

  removePort(sandbox: Sandbox, port: number): Promise<void> {
    return this.#command(sandbox, removePortUpdate, [port]).catch(asNotRunning);
  }

  /** A sandbox must end also while it has many other commands, so equal calls share one update. */
  terminate(sandbox: Sandbox, { forget }: { forget: boolean }): Promise<{ alreadyTerminated: boolean }> {
    const { accountId, sandboxId } = sandbox;
    const key = `${sandboxId} ${forget}`;
    const inProgress = this.#terminations.get(key);
    if (inProgress) return inProgress;
    const termination = this.#terminate(sandbox, forget)
      .catch((error) => this.#endThroughOutbox({ accountId, sandboxIds: [sandboxId], forget }, error))
      .finally(() => this.#terminations.delete(key));
    this.#terminations.set(key, termination);
    return termination;
  }

  async #terminate(sandbox: Sandbox, forget: boolean): Promise<{ alreadyTerminated: boolean }> {
    if (isAlreadyTerminated(sandbox.status, forget)) return { alreadyTerminated: true };
    if (!isOver(sandbox.status)) {
      try {
        await this.#deliver(sandbox, terminateUpdate, [{ forget }]);
        return { alreadyTerminated: false };
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'sandbox_ended')) throw error;
      }
    }
    return this.#terminateEnded(sandbox, forget);
  }

  /**
   * Refuses at once if the host is away, because work for it would wait in its queue for a long time before it fails.
   */
  async #requireHost({ hostId, status }: Sandbox): Promise<void> {
    if (isOver(status) || (await hasLease(this.#orm.em, hostId))) return;
    throw new AppError('host_unavailable', 'The host of this sandbox is down; try again when it is back');
  }

  async endBatch(sandboxes: readonly Sandbox[], { forget }: { forget: boolean }): Promise<void> {
    const sandboxIds = sandboxes.map(({ sandboxId }) => sandboxId);
    const ending = { accountId: sandboxes[0]!.accountId, sandboxIds, forget };
    try {
      const options = startOptions('sandboxBatchEnding', newId('batch'), ending);
      await this.#client.workflow.start<typeof sandboxBatchEnding>('sandboxBatchEnding', options);
    } catch (error) {
      await this.#endThroughOutbox(ending, asAppError(error));
    }
  }

  /** An end is always possible, so if Temporal is unreachable, the relay requests it later. */
  async #endThroughOutbox(ending: BatchEndingInput, error: unknown): Promise<{ alreadyTerminated: false }> {
    if (!(error instanceof AppError && error.code === 'temporarily_unavailable')) throw error;
    this.#logger.warn(
      { err: error, sandboxIds: ending.sandboxIds },
      'the end of sandboxes could not be requested; left to the relay',
    );
    await this.#orm.em
      .fork()
      .transactional(async (em) => requestStart(em, 'sandboxBatchEnding', newId('batch'), ending));
    return { alreadyTerminated: false };
  }

  /** The sandbox's own workflow has closed, so another one cleans up. */
  async #terminateEnded({ sandboxId, accountId }: Sandbox, forget: boolean): Promise<{ alreadyTerminated: boolean }> {
    const now = await findSandboxStatus(this.#orm.em, sandboxId);
    if (isAlreadyTerminated(now?.status, forget)) return { alreadyTerminated: true };
    try {
      const options = startOptions('sandboxDeletion', sandboxId, { accountId, sandboxId, forget });
      await this.#client.workflow.execute<typeof sandboxDeletion>('sandboxDeletion', options);
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw asAppError(error);
    }
    return { alreadyTerminated: false };
  }

  #command<R, A extends [unknown, ...unknown[]]>(
    sandbox: Sandbox,
    update: UpdateDefinition<R, A>,
    args: A,
  ): Promise<R> {
    return this.#inFlight.send(sandbox.sandboxId, () => this.#update(sandbox, update, args));
  }

  async #update<R, A extends [unknown, ...unknown[]]>(
    sandbox: Sandbox,
    update: UpdateDefinition<R, A>,
    args: A,
  ): Promise<R> {
    if (sandbox.movedDirectly) {
      // A move that the workflow has to finish may fail. That is the error of another command.
      await this.#deliver(sandbox, adoptUpdate, [{ takeOver: true }]).catch((error) => {
        if (!(error instanceof AppError) || error.code === 'temporarily_unavailable') throw error;
      });
    }
    return this.#deliver(sandbox, update, args);
  }

  async #deliver<R, A extends [unknown, ...unknown[]]>(
    sandbox: Sandbox,
    update: UpdateDefinition<R, A>,
    args: A,
  ): Promise<R> {
    await this.#following.get(sandbox.sandboxId);
    try {
      return await this.#send(sandbox.sandboxId, update, args);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw await this.#explained(sandbox.sandboxId, error);
    }
    // The workflow is not started yet, or closed. The row shows which.
    const now = await findSandboxStatus(this.#orm.em, sandbox.sandboxId);
    if (!now || isOver(now.status)) throw ended(now?.status ?? 'deleted');
    await this.start(sandbox, { wait: false });
    return this.#send(sandbox.sandboxId, update, args).catch((error) => {
      throw error instanceof WorkflowNotFoundError ? ended(now.status) : asAppError(error);
    });
  }

  /** Tells a workflow that fails from a Temporal or a worker that is away or busy. */
  async #explained(sandboxId: SandboxId, error: unknown): Promise<unknown> {
    const mapped = asAppError(error);
    const isUnanswered = mapped instanceof AppError && mapped.code === 'temporarily_unavailable';
    return isUnanswered && (await isFailing(this.#client, sandboxId)) ? workflowFailing(error) : mapped;
  }

  async #send<R, A extends [unknown, ...unknown[]]>(
    sandboxId: SandboxId,
    update: UpdateDefinition<R, A>,
    args: A,
  ): Promise<R> {
    const handle = this.#client.workflow.getHandle(sandboxId);
    for (let tries = 1; ; tries++) {
      try {
        return await handle.executeUpdate<R, A>(update, { args });
      } catch (error) {
        if (!wasNotProcessed(error) || tries === unprocessedTries) throw error;
        await delay(tries * 50 * (0.5 + Math.random()));
      }
    }
  }

  /** The outbox cannot deliver the credentials, so this method tries for as long as the start waits for them. */
  async #bringCredentials(
    sandbox: Sandbox,
    sealed: string,
    { wait, untilMs }: { wait: boolean; untilMs: number },
  ): Promise<void> {
    for (;;) {
      try {
        await this.#client.workflow.executeUpdateWithStart(storageCredentialsUpdate, {
          args: [{ sealed, wait }],
          startWorkflowOperation: new WithStartWorkflowOperation<typeof sandboxWorkflow>('sandbox', {
            ...sandboxStart(sandbox),
            workflowIdConflictPolicy: 'USE_EXISTING',
          }),
        });
        return;
      } catch (error) {
        const refused = error instanceof WorkflowUpdateFailedError && !wasNotProcessed(error);
        if (refused || error instanceof WorkflowExecutionAlreadyStartedError || Date.now() > untilMs) throw error;
        this.#logger.warn(
          { err: error, sandboxId: sandbox.sandboxId },
          'the credentials of mounts could not be delivered; trying again',
        );
        await delay(1000);
      }
    }
  }

  async #waitForRow(sandboxId: SandboxId, untilMs: number): Promise<void> {
    while (Date.now() < untilMs) {
      const row = await findSandboxStatus(this.#orm.em, sandboxId);
      if (!row || (row.status !== 'created' && row.status !== 'starting')) return;
      await delay(250);
    }
  }
}

function sandboxStart(sandbox: Sandbox, running?: LifeStart['running']) {
  return startOptions('sandbox', sandbox.sandboxId, { ...toLifeStart(sandbox), ...(running && { running }) });
}

/**
 * If many updates arrive at once, a worker may complete a task without having processed all of them, and the server
 * rejects the rest. A rejected update had no effect, so it may be sent again.
 */
function wasNotProcessed(error: unknown): boolean {
  return hasFailureType(error, 'UnprocessedUpdate');
}

function ended(status: string): AppError {
  return new AppError('sandbox_ended', `The sandbox is ${status}`);
}

/** For commands that need a running sandbox, an ended sandbox is one that is not running. */
function asNotRunning(error: unknown): never {
  if (error instanceof AppError && error.code === 'sandbox_ended') {
    throw new AppError('sandbox_not_running', `${error.message}, not running`);
  }
  throw error;
}

/** Converts an error to the error for the caller of a command. */
function asAppError(error: unknown): unknown {
  return isWorkflowClosed(error) ? ended('ending') : (workflowError(error) ?? error);
}

/**
 * The update was accepted, but the workflow run ended, or was cancelled by an operator, before its handler had replied.
 */
function isWorkflowClosed(error: unknown): boolean {
  const isCancelled = error instanceof WorkflowUpdateFailedError && error.cause instanceof CancelledFailure;
  return isCancelled || hasFailureType(error, 'AcceptedUpdateCompletedWorkflow');
}

function hasFailureType(error: unknown, type: string): boolean {
  return (
    error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure && error.cause.type === type
  );
}

/**
 * The maximum number of commands of this process that one sandbox has at once. With two terminations, which are not
 * counted, and the update of its create, they are Temporal's default limit of updates in flight for a workflow (10).
 */
const maxCommandsInFlight = 7;

/**
 * Counts the commands that this process has sent to each sandbox and that have no reply yet. Temporal refuses updates
 * above its limit only after they have delayed the others, so a command above ours is refused before it is sent.
 */
class CommandsInFlight {
  readonly #counts = new Map<SandboxId, number>();

  /** @throws {AppError} `too_many_requests`, and sends nothing */
  async send<R>(sandboxId: SandboxId, command: () => Promise<R>): Promise<R> {
    const count = this.#counts.get(sandboxId) ?? 0;
    if (count >= maxCommandsInFlight) {
      throw new AppError('too_many_requests', 'Too many commands for this sandbox are under way; try again in 1 s', {
        retryAfterSeconds: 1,
      });
    }
    this.#counts.set(sandboxId, count + 1);
    try {
      return await command();
    } finally {
      const left = this.#counts.get(sandboxId)! - 1;
      if (left > 0) this.#counts.set(sandboxId, left);
      else this.#counts.delete(sandboxId);
    }
  }
}
