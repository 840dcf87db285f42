import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';

/** A message to one user inside the product. */
export const Notification = defineEntity({
  name: 'Notification',
  tableName: 'notifications',
  properties: {
    id: p.string().primary(),
    accountId: p.string().$type<AccountId>(),
    userId: p.string().$type<UserId>(),
    title: p.string(),
    message: p.string(),
    type: p.string(),
    category: p.string(),
    isRead: p.boolean().default(false),
    relatedEntityType: p.string().nullable(),
    relatedEntityId: p.string().nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
  },
});
export type Notification = InferEntity<typeof Notification>;
