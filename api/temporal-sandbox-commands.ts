import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { ApplicationFailure, type UpdateDefinition } from '@temporalio/common';
import type { Logger } from 'pino';
import type { Sandbox } from '../db/entities/sandbox.ts';
import { newId } from '../db/new-id.ts';
import type { Orm } from '../db/orm.ts';
import { hasLease } from '../db/repositories/hosts.ts';
import { removeStartOf } from '../db/repositories/outbox.ts';
import { findSandboxStatus } from '../db/repositories/sandbox-status.ts';
import { AppError } from '../domain/errors.ts';
import type { SandboxId } from '../domain/ids.ts';
import { lifeStartOf } from '../domain/life-plan.ts';
import type { StorageChange } from '../domain/object-storage.ts';
import type { Port } from '../domain/ports.ts';
import { isOver } from '../domain/sandbox-state.ts';
import type { TimeoutChange, TimeoutReply } from '../domain/timeout-change.ts';
import { startOptions } from '../temporal/workflow-starts.ts';
import {
  addPortUpdate,
  connectUpdate,
  pauseUpdate,
  removePortUpdate,
  restartUpdate,
  resumeUpdate,
  settledUpdate,
  storageCredentialsUpdate,
  terminateUpdate,
  timeoutUpdate,
} from '../workflows/sandbox/messages.ts';
import type { sandbox as sandboxWorkflow } from '../workflows/sandbox/workflow.ts';
import type { sandboxBatchEnding } from '../workflows/sandbox-batch-ending.ts';
import type { sandboxDeletion } from '../workflows/sandbox-deletion.ts';
import { isAlreadyTerminated, type SandboxCommands } from './sandbox-commands.ts';
import { workflowError } from './workflow-errors.ts';

/** How long a create waits for the relay if Temporal was unreachable at first. */
const startPatienceMs = 60_000;

/** How often a command is sent again if the worker did not process it. */
const unprocessedTries = 6;

/** Sends commands to the workflows of sandboxes. Holds no state: any replica may send any command. */
export class TemporalSandboxCommands implements SandboxCommands {
  readonly #client: Client;
  readonly #orm: Orm;
  readonly #logger: Logger;

  constructor(deps: { client: Client; orm: Orm; logger: Logger }) {
    this.#client = deps.client;
    this.#orm = deps.orm;
    this.#logger = deps.logger;
  }

  async start(
    sandbox: Sandbox,
    { wait, sealedCredentials }: { wait: boolean; sealedCredentials?: string | null },
  ): Promise<void> {
    const { sandboxId } = sandbox;
    const options = sandboxStart(sandbox);
    try {
      if (sealedCredentials) {
        await this.#bringCredentials(sandbox, sealedCredentials, wait);
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
      if (wait) await this.#waitForRow(sandboxId);
      return;
    }
    // The request does not wait for this. If it fails, the relay finds that the workflow is already started.
    removeStartOf(this.#orm.em, sandboxId).catch((error) => {
      this.#logger.warn({ err: error, sandboxId }, 'the start of a sandbox could not be removed from the outbox');
    });
  }

  async pause(sandbox: Sandbox, { wait }: { wait: boolean }): Promise<void> {
    await this.#update(sandbox, pauseUpdate, [{ wait }]);
  }

  async resume(sandbox: Sandbox, options: { wait: boolean; storage?: StorageChange }): Promise<void> {
    await this.#requireHost(sandbox);
    await this.#update(sandbox, resumeUpdate, [options]);
  }

  async restart(sandbox: Sandbox, options: { storage: StorageChange | null }): Promise<void> {
    await this.#requireHost(sandbox);
    await this.#update(sandbox, restartUpdate, [options]);
  }

  async connect(sandbox: Sandbox, { timeoutSeconds }: { timeoutSeconds: number | null }): Promise<void> {
    if (sandbox.status === 'paused') await this.#requireHost(sandbox);
    await this.#update(sandbox, connectUpdate, [{ timeoutSeconds }]);
  }

  setTimeout(sandbox: Sandbox, change: TimeoutChange): Promise<TimeoutReply> {
    return this.#update(sandbox, timeoutUpdate, [change]);
  }

  addPort(sandbox: Sandbox, port: Port): Promise<void> {
    return this.#update(sandbox, addPortUpdate, [port]).catch(asNotRunning);
  }

  removePort(sandbox: Sandbox, port: number): Promise<void> {
    return this.#update(sandbox, removePortUpdate, [port]).catch(asNotRunning);
  }

  async terminate(sandbox: Sandbox, { forget }: { forget: boolean }): Promise<{ alreadyTerminated: boolean }> {
    if (isAlreadyTerminated(sandbox.status, forget)) return { alreadyTerminated: true };
    if (!isOver(sandbox.status)) {
      try {
        await this.#update(sandbox, terminateUpdate, [{ forget }]);
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
    try {
      const sandboxIds = sandboxes.map(({ sandboxId }) => sandboxId);
      const { accountId } = sandboxes[0]!;
      const options = startOptions('sandboxBatchEnding', newId('batch'), { accountId, sandboxIds, forget });
      await this.#client.workflow.start<typeof sandboxBatchEnding>('sandboxBatchEnding', options);
    } catch (error) {
      throw asAppError(error);
    }
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

  async #update<R, A extends [unknown, ...unknown[]]>(
    sandbox: Sandbox,
    update: UpdateDefinition<R, A>,
    args: A,
  ): Promise<R> {
    try {
      return await this.#send(sandbox.sandboxId, update, args);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw asAppError(error);
    }
    // The workflow is not started yet, or closed. The row shows which.
    const now = await findSandboxStatus(this.#orm.em, sandbox.sandboxId);
    if (!now || isOver(now.status)) throw ended(now?.status ?? 'deleted');
    await this.start(sandbox, { wait: false });
    return this.#send(sandbox.sandboxId, update, args).catch((error) => {
      throw error instanceof WorkflowNotFoundError ? ended(now.status) : asAppError(error);
    });
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
  async #bringCredentials(sandbox: Sandbox, sealed: string, wait: boolean): Promise<void> {
    const until = Date.now() + startPatienceMs;
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
        if (refused || error instanceof WorkflowExecutionAlreadyStartedError || Date.now() > until) throw error;
        this.#logger.warn(
          { err: error, sandboxId: sandbox.sandboxId },
          'the credentials of mounts could not be delivered; trying again',
        );
        await delay(1000);
      }
    }
  }

  async #waitForRow(sandboxId: SandboxId): Promise<void> {
    const until = Date.now() + startPatienceMs;
    while (Date.now() < until) {
      const row = await findSandboxStatus(this.#orm.em, sandboxId);
      if (!row || (row.status !== 'created' && row.status !== 'starting')) return;
      await delay(250);
    }
  }
}

function sandboxStart(sandbox: Sandbox) {
  return startOptions('sandbox', sandbox.sandboxId, lifeStartOf(sandbox));
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
  return isRunOver(error) ? ended('ending') : (workflowError(error) ?? error);
}

/** The update was accepted, but the run ended before its handler did. */
function isRunOver(error: unknown): boolean {
  return hasFailureType(error, 'AcceptedUpdateCompletedWorkflow');
}

function hasFailureType(error: unknown, type: string): boolean {
  return (
    error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure && error.cause.type === type
  );
}
