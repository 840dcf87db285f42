import { useRead } from '../api/queries.ts';

/** Most notifications have no event of their own. */
export const notificationsEveryMs = 30_000;

/** The number of the person's unread notifications. Undefined: not known yet. */
export const useUnreadNotifications = () =>
  useRead('listNotifications', { query: { read: 'false', limit: 1 } }, { everyMs: notificationsEveryMs }).data
    ?.unread_count;
