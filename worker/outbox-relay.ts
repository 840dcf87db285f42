import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { Logger } from 'pino';
import {
  findDueLanes,
  type OutboxLane,
  outboxLanes,
  recordFailedAttempt,
  removeEntries,
  takeDueEntries,
} from '../db/core/outbox.ts';
import type { OutboxEntry } from '../db/core/outbox-entry.entity.ts';
import type { Orm } from '../db/orm.ts';
import { isWorkflowType, type WorkflowInput, type WorkflowType } from '../domain/workflow-registry.ts';
import { startOptions } from '../platform/temporal/workflow-starts.ts';

/**
 * The size of a batch, and the pause after one. A failing endpoint makes thousands of retries, whose starts would
 * use all of the processor, also those of Temporal and Postgres.
 */
const batches: Readonly<Record<OutboxLane, { size: number; pauseMs: number }>> = {
  webhooks: { size: 5, pauseMs: 500 },
  others: { size: 100, pauseMs: 0 },
};
/** How often the relay looks for due entries. It takes them only when there are some, so an idle relay costs little. */
const lookEveryMs = 500;

/**
 * Starts and signals the workflows that committed changes requested, at least once each. Any number of relays may run,
 * and only one at a time holds an entry. A workflow's id is derived from its object and, for most types, is never
 * reused, so a repeated start makes no second workflow.
 */
export class OutboxRelay {
  readonly #orm: Orm;
  readonly #client: Client;
  readonly #logger: Logger;
  #stopping = new AbortController();
  #running: Promise<unknown> | null = null;

  constructor(deps: { orm: Orm; client: Client; logger: Logger }) {
    this.#orm = deps.orm;
    this.#client = deps.client;
    this.#logger = deps.logger;
  }

  start(): void {
    this.#running ??= this.#look();
  }

  /** Stops after the current batches. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #look(): Promise<void> {
    const { signal } = this.#stopping;
    const busy = new Map<OutboxLane, Promise<void>>();
    const report = (error: unknown) => this.#logger.warn({ err: error }, 'outbox relay could not work; trying again');
    while (!signal.aborted) {
      try {
        for (const lane of await findDueLanes(this.#orm.em)) {
          // One lane does not wait for the other.
          if (busy.has(lane)) continue;
          const work = this.#relayAll(lane).catch(report);
          busy.set(
            lane,
            work.then(() => void busy.delete(lane)),
          );
        }
      } catch (error) {
        report(error);
      }
      await pause(lookEveryMs, signal);
    }
    await Promise.all(busy.values());
  }

  /** Relays batches of a lane until one is not full. */
  async #relayAll(lane: OutboxLane): Promise<void> {
    const { signal } = this.#stopping;
    const { size, pauseMs } = batches[lane];
    for (let started = size; started === size && !signal.aborted; ) {
      started = await this.#relay(lane);
      await pause(pauseMs, signal);
    }
  }

  /** Relays one batch of each lane. @returns the number of their entries */
  async relayOnce(): Promise<number> {
    const counts = await Promise.all(outboxLanes.map((lane) => this.#relay(lane)));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #relay(lane: OutboxLane): Promise<number> {
    const due = await takeDueEntries(this.#orm.em, lane, batches[lane].size);
    const done = await Promise.all(due.map((entry) => this.#attempt(entry)));
    await removeEntries(
      this.#orm.em,
      due.filter((_, index) => done[index]).map((entry) => entry.id),
    );
    return due.length;
  }

  /** @returns whether the entry is done */
  async #attempt(entry: OutboxEntry): Promise<boolean> {
    const { id, workflowId, workflowType } = entry;
    try {
      if (!isWorkflowType(workflowType)) throw new Error(`there is no workflow type ${workflowType}`);
      if (entry.signal) await this.#signal(workflowId, entry.signal, entry.input);
      else await this.#start(workflowType, workflowId, entry.input);
      return true;
    } catch (error) {
      const isDead = await recordFailedAttempt(this.#orm.em, {
        id,
        error: formatError(error),
        isRefusal: !isOutage(error),
      });
      const fields = { err: error, outboxId: id, workflowId, signal: entry.signal };
      if (isDead) this.#logger.error(fields, 'an outbox entry failed too often; an operator can have it tried again');
      else this.#logger.warn(fields, 'an outbox entry failed; trying again');
      return false;
    }
  }

  async #start(type: WorkflowType, workflowId: string, input: object): Promise<void> {
    // The row already has the workflow id. The options would make it from the object's id.
    const options = { ...startOptions(type, '', input as WorkflowInput<typeof type>), workflowId };
    try {
      await this.#client.workflow.start(type, options);
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
  }

  async #signal(workflowId: string, signal: string, argument: object): Promise<void> {
    const handle = this.#client.workflow.getHandle(workflowId);
    try {
      await handle.signal(signal, argument);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      // Temporal gives the same error for a closed workflow and for one that is not started yet. `describe` fails only
      // for the latter, unless it starts in this moment.
      if ((await handle.describe()).status.name === 'RUNNING') await handle.signal(signal, argument);
    }
  }
}

/** gRPC's CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE: the same call may succeed later. */
const outageCodes = new Set([1, 4, 8, 14]);

function isOutage(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) && outageCodes.has(Number(cause.code));
}

function formatError(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch((error) => {
    if (error.name !== 'AbortError') throw error;
  });
}
