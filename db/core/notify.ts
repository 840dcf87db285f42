import type { EntityManager } from '@mikro-orm/postgresql';
import { Notification } from '../accounts/notification.entity.ts';
import { newId } from '../new-id.ts';

/** A message to one user inside the product. Its texts are for people, its type is for programs. */
export type NewNotification = Pick<
  Notification,
  'accountId' | 'userId' | 'title' | 'message' | 'type' | 'category' | 'relatedEntityType' | 'relatedEntityId'
>;

/** Adds a notification to a transaction, so that it exists exactly if the change is committed. */
export function addNotification(tx: EntityManager, notification: NewNotification): void {
  tx.create(Notification, { id: newId('notification'), ...notification }, { persist: true });
}
