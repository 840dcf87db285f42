import { z } from 'zod';
import type { Notification } from '../../../../db/accounts/notification.entity.ts';
import { time } from '../../../schemas/fields.ts';

const item = {
  id: z.string().meta({ examples: ['ntf-9ypjhn8d3fkq6w2mzx5v'] }),
  user_id: z.string(),
  title: z.string(),
  message: z.string(),
  type: z.string().describe('For programs, such as `sandbox_timeout`'),
  is_read: z.boolean(),
  category: z.string().describe('The kind of its subject, such as `sandbox`'),
  created_at: time(),
};

/** A notification in a list. */
export const notificationItemSchema = z.object(item).meta({ id: 'NotificationItem' });

/** A notification read by its id. */
export const notificationSchema = z
  .object({
    ...item,
    related_entity_type: z.string().nullable().describe('The kind of the related object'),
    related_entity_id: z.string().nullable(),
  })
  .meta({ id: 'Notification' });

/** Path of routes on one notification. */
export const notificationPath = z.object({ notification_id: z.string().describe('`ntf-…`') });

export function presentNotificationItem(notification: Notification): z.output<typeof notificationItemSchema> {
  return {
    id: notification.id,
    user_id: notification.userId,
    title: notification.title,
    message: notification.message,
    type: notification.type,
    is_read: notification.isRead,
    category: notification.category,
    created_at: notification.createdAt,
  };
}

export function presentNotification(notification: Notification): z.output<typeof notificationSchema> {
  return {
    ...presentNotificationItem(notification),
    related_entity_type: notification.relatedEntityType ?? null,
    related_entity_id: notification.relatedEntityId ?? null,
  };
}
