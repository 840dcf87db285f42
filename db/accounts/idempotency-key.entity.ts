import { defineEntity, type InferEntity, p } from '@mikro-orm/core';

/** The first reply to a request with an `Idempotency-Key`, kept for 24 hours. */
export const IdempotencyKey = defineEntity({
  name: 'IdempotencyKey',
  tableName: 'idempotency_keys',
  properties: {
    /** The API key or user of the request. */
    caller: p.string().primary(),
    key: p.string().primary(),
    /** SHA-256 of method, path and body. */
    requestHash: p.string(),
    /** Null while the first request runs. */
    replyStatus: p.integer().nullable(),
    /** The reply without its secrets. */
    replyBody: p.json<unknown>().nullable(),
    /** The id for the created object, so that a request that takes over the key does not create a second one. */
    objectId: p.string().nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type IdempotencyKey = InferEntity<typeof IdempotencyKey>;
