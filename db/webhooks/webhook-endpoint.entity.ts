import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId, WebhookEndpointId } from '../../domain/ids.ts';

/** An address that receives the events of a user's objects, or of all objects of an account. */
export const WebhookEndpoint = defineEntity({
  name: 'WebhookEndpoint',
  tableName: 'webhook_endpoints',
  properties: {
    endpointId: p.string().$type<WebhookEndpointId>().primary(),
    accountId: p.string().$type<AccountId>(),
    /** The user whose events it receives. Null: those of the whole account. */
    userId: p.string().$type<UserId>().nullable(),
    url: p.string(),
    /** Types, families such as `sandbox.*`, or `*`. */
    eventTypes: p.array(),
    description: p.string().default(''),
    isActive: p.boolean().default(true),
    /** Why the platform disabled it. Null: it is active, or its user disabled it. */
    disabledReason: p.string().$type<'gone' | 'failing'>().nullable(),
    timeoutSeconds: p.integer().default(30),
    maxRetries: p.integer().default(3),
    /** The number of its signing key. Keys are derived from it. */
    keyNumber: p.integer().default(1),
    /** The number of the secret key from which its signing key is derived. */
    secretKeyNumber: p.integer().default(1),
    publicKey: p.string(),
    /** The caller's secret, encrypted. */
    sealedSecret: p.string().nullable(),
    /** The previous key and secret, which also sign until this time. */
    previousKeyNumber: p.integer().nullable(),
    previousSecretKeyNumber: p.integer().nullable(),
    previousSealedSecret: p.string().nullable(),
    previousUntil: p.datetime(3).nullable(),
    /** Attempts since the last success. */
    consecutiveFailures: p.integer().default(0),
    failingSince: p.datetime(3).nullable(),
    /** Deliveries with at least one attempt, and the number of those that have ended. */
    totalDeliveries: p.bigint('number').default(0),
    successfulDeliveries: p.bigint('number').default(0),
    failedDeliveries: p.bigint('number').default(0),
    lastDeliveryAt: p.datetime(3).nullable(),
    lastSuccessAt: p.datetime(3).nullable(),
    lastFailureAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type WebhookEndpoint = InferEntity<typeof WebhookEndpoint>;
