import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** A workflow that must be started because of a committed change; the relay starts it and removes the row. */
export const OutboxEntry = defineEntity({
  name: 'OutboxEntry',
  tableName: 'outbox',
  properties: {
    id: p.bigint('string').primary().autoincrement(),
    workflowType: p.string(),
    workflowId: p.string(),
    /** The workflow's one argument; never a secret. */
    input: p.json<Record<string, unknown>>(),
    attempts: p.integer().default(0),
    /** By the database's clock: a process whose own is ahead must not put a start off. */
    notBefore: p.datetime(3).defaultRaw('now()'),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type OutboxEntry = InferEntity<typeof OutboxEntry>;
