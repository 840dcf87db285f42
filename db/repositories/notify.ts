import type { EntityManager } from '@mikro-orm/postgresql';
import { Notification } from '../entities/notification.ts';
import { newId } from '../new-id.ts';

/** A message to one user inside the product. Texts are for people, the type is for programs. */
export type NewNotification = Pick<
  Notification,
  'accountId' | 'userId' | 'title' | 'message' | 'type' | 'category' | 'relatedEntityType' | 'relatedEntityId'
>;

/** Adds a notification to a transaction, so that it is there exactly when the change it is about is. */
export function addNotification(tx: EntityManager, notification: NewNotification): void {
  tx.create(Notification, { id: newId('notification'), ...notification }, { persist: true });
}
