import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { bulkDeleteNotifications } from './bulk-delete.ts';
import { bulkMarkNotificationsRead, bulkMarkNotificationsUnread } from './bulk-mark.ts';
import { deleteNotification } from './delete.ts';
import { deleteAll } from './delete-all.ts';
import { getNotification } from './get.ts';
import { listNotifications } from './list.ts';
import { markNotificationRead, markNotificationUnread } from './mark.ts';
import { markAllRead } from './read-all.ts';

/** Messages to users inside the product. Each user sees only their own. */
export const notificationRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listNotifications,
  getNotification,
  markNotificationRead,
  markNotificationUnread,
  markAllRead,
  bulkMarkNotificationsRead,
  bulkMarkNotificationsUnread,
  deleteNotification,
  deleteAll,
  bulkDeleteNotifications,
];
