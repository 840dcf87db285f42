import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, EventId, UserId } from '../../domain/ids.ts';

/**
 * A fact about an object. The events of an object are numbered from 1 without gaps. Webhooks and notifications refer to
 * these rows.
 */
export const Event = defineEntity({
  name: 'Event',
  tableName: 'events',
  properties: {
    eventId: p.string().$type<EventId>().primary(),
    accountId: p.string().$type<AccountId>(),
    userId: p.string().$type<UserId>().nullable(),
    objectId: p.string(),
    sequence: p.integer(),
    type: p.string(),
    data: p.json<Record<string, unknown>>(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type Event = InferEntity<typeof Event>;
