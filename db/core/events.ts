import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { Event } from './event.entity.ts';
import { newId } from './new-id.ts';
import { query } from './query.ts';

/** The object of an event, and its receivers: the owner, and the account's root users. */
export interface EventObject {
  /** The id has a prefix, so that no two objects share it. */
  objectId: string;
  accountId: AccountId;
  /** Null: the object belongs only to the account. */
  userId: UserId | null;
}

/**
 * Records an event of any object, in the transaction of `em` that makes it true. The events of one object are numbered
 * from 1 without gaps: the counter is locked until the transaction ends, and rolled back with it. Call this late in a
 * transaction.
 */
export async function recordEvent(
  em: EntityManager,
  object: EventObject,
  type: string,
  data: Record<string, unknown>,
): Promise<Event> {
  const [counted] = await query<{ last: number }>(
    em,
    `insert into event_sequences as s (object_id, last) values (?, 1)
     on conflict (object_id) do update set last = s.last + 1 returning last`,
    [object.objectId],
  );
  return em.create(Event, newEvent(object, counted!.last, type, data, new Date()), { persist: true });
}

/** Receivers get `sequence` in the data, so that they can order events. */
export function newEvent(
  object: EventObject,
  sequence: number,
  type: string,
  data: Record<string, unknown>,
  createdAt: Date,
): Event {
  return { eventId: newId('event'), ...object, sequence, type, data: { ...data, sequence }, createdAt };
}
