import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A workflow to start or signal because of a committed change. The relay does that and removes the row. */
export const OutboxEntry = defineEntity({
  name: 'OutboxEntry',
  tableName: 'outbox',
  properties: {
    id: p.bigint('string').primary().autoincrement(),
    workflowType: p.string(),
    workflowId: p.string(),
    /** The signal to send. Null: start the workflow. */
    signal: p.string().nullable(),
    /** The single argument of the workflow or the signal. It is never a secret. */
    input: p.json<Record<string, unknown>>(),
    attempts: p.integer().default(0),
    /** Attempts that failed although Temporal was reachable. After `maxRefusals` the entry is dead. */
    refusals: p.integer().default(0),
    /** The error of the last failed attempt. */
    lastError: p.string().nullable(),
    /** When the entry died. It is not tried again until an operator retries it. */
    deadAt: p.datetime(3).nullable(),
    /** By the database's clock, because a process whose clock is ahead must not delay an entry. */
    notBefore: p.datetime(3).defaultRaw('now()'),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type OutboxEntry = InferEntity<typeof OutboxEntry>;
