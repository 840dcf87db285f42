import type { Orm } from '../db/orm.ts';
import {
  dropOldMetricsPartitions,
  makeMetricsPartitions,
  purgeIdempotencyKeys,
} from '../db/repositories/maintenance.ts';

/** What the platform does for its own tables, apart from anybody's requests. Each may be repeated at any time. */
export function createMaintenanceActivities({ orm }: { orm: Orm }) {
  return {
    /** So that samples never find their day without a partition. @returns how many were made */
    makeMetricsPartitions: (): Promise<number> => makeMetricsPartitions(orm.em),
    /** @returns how many partitions went */
    dropOldMetricsPartitions: (): Promise<number> => dropOldMetricsPartitions(orm.em),
    /** @returns how many replies went */
    purgeIdempotencyKeys: (): Promise<number> => purgeIdempotencyKeys(orm.em),
  };
}

export type MaintenanceActivities = ReturnType<typeof createMaintenanceActivities>;
