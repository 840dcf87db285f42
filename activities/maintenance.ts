import type { Orm } from '../db/orm.ts';
import { dropOldMetricsPartitions, makeMetricsPartitions } from '../db/repositories/maintenance.ts';
import {
  purgeEndedSandboxes,
  purgeEvents,
  purgeNotifications,
  purgeReplies,
  type Retention,
} from '../db/repositories/retention.ts';

/** What the platform does for its own tables, apart from anybody's requests. Each may be repeated at any time. */
export function createMaintenanceActivities({ orm, retention }: { orm: Orm; retention: Retention }) {
  return {
    /** So that samples never find their day without a partition. @returns how many were made */
    makeMetricsPartitions: (): Promise<number> => makeMetricsPartitions(orm.em),
    /** @returns how many partitions went */
    dropOldMetricsPartitions: (): Promise<number> => dropOldMetricsPartitions(orm.em),
    /** @returns how many replies went */
    purgeIdempotencyKeys: (): Promise<number> => purgeReplies(orm.em, retention),
    /** @returns how many events went */
    purgeEvents: (): Promise<number> => purgeEvents(orm.em, retention),
    /** @returns how many notifications went */
    purgeNotifications: (): Promise<number> => purgeNotifications(orm.em, retention),
    /** @returns how many rows of ended sandboxes went */
    purgeEndedSandboxes: (): Promise<number> => purgeEndedSandboxes(orm.em, retention),
  };
}

export type MaintenanceActivities = ReturnType<typeof createMaintenanceActivities>;
