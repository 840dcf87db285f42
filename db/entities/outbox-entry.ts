import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A workflow that must be started or signalled because of a committed change; the relay does it and removes the row. */
export const OutboxEntry = defineEntity({
  name: 'OutboxEntry',
  tableName: 'outbox',
  properties: {
    id: p.bigint('string').primary().autoincrement(),
    workflowType: p.string(),
    workflowId: p.string(),
    /** The signal to send; null: start the workflow. */
    signal: p.string().nullable(),
    /** The one argument of the workflow or the signal; never a secret. */
    input: p.json<Record<string, unknown>>(),
    attempts: p.integer().default(0),
    /** Attempts that failed while Temporal was there. After `mostRefusals` the entry is dead. */
    refusals: p.integer().default(0),
    /** The error of the last failed attempt. */
    lastError: p.string().nullable(),
    /** Nothing tries it any more, until an operator retries it. */
    deadAt: p.datetime(3).nullable(),
    /** By the database's clock: a process whose clock is ahead must not delay an entry. */
    notBefore: p.datetime(3).defaultRaw('now()'),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type OutboxEntry = InferEntity<typeof OutboxEntry>;
