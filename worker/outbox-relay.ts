import { setTimeout as delay } from 'node:timers/promises';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { Logger } from 'pino';
import type { Orm } from '../db/orm.ts';
import { type DueStart, removeStarted, takeDueStarts } from '../db/repositories/outbox.ts';
import type { LifeStart } from '../domain/life-plan.ts';
import { controlTaskQueue } from '../domain/task-queues.ts';
import { sandboxSearchAttributes } from '../temporal/search-attributes.ts';

const batchSize = 100;
const idleMs = 500;

/**
 * Starts the workflows that committed changes asked for. Any number of relays may run; each entry is held by one at a
 * time. A workflow's id follows from its object and a finished one is never started again, so a start that is told
 * twice is one life.
 */
export class OutboxRelay {
  readonly #orm: Orm;
  readonly #client: Client;
  readonly #logger: Logger;
  #stopping = new AbortController();
  #running: Promise<void> | null = null;

  constructor(deps: { orm: Orm; client: Client; logger: Logger }) {
    this.#orm = deps.orm;
    this.#client = deps.client;
    this.#logger = deps.logger;
  }

  start(): void {
    this.#running ??= this.#loop();
  }

  /** Ends after the batch in hand. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      let started = 0;
      try {
        started = await this.relayOnce();
      } catch (error) {
        this.#logger.warn({ err: error }, 'outbox relay could not work; trying again');
      }
      if (started < batchSize) await pause(idleMs, signal);
    }
  }

  /** One batch. @returns how many entries it took */
  async relayOnce(): Promise<number> {
    const due = await takeDueStarts(this.#orm.em, batchSize);
    const done = await Promise.all(due.map((entry) => this.#start(entry)));
    await removeStarted(
      this.#orm.em,
      due.filter((_, index) => done[index]).map((entry) => entry.id),
    );
    return due.length;
  }

  async #start(entry: DueStart): Promise<boolean> {
    const { plan } = entry.input as Partial<LifeStart>;
    try {
      await this.#client.workflow.start(entry.workflowType, {
        workflowId: entry.workflowId,
        taskQueue: controlTaskQueue,
        args: [entry.input],
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        ...(plan ? { typedSearchAttributes: sandboxSearchAttributes(plan, 'starting') } : {}),
      });
      return true;
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return true;
      this.#logger.warn({ err: error, workflowId: entry.workflowId }, 'a workflow could not be started; trying again');
      return false;
    }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch((error) => {
    if (error.name !== 'AbortError') throw error;
  });
}
