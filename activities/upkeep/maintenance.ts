import { log } from '@temporalio/activity';
import { reviveBudgetChecks } from '../../db/billing/budgets.ts';
import { countRefusedUsage } from '../../db/billing/reconciliations.ts';
import type { Orm } from '../../db/orm.ts';
import {
  dropOldMetricsPartitions,
  dropOldWebhookPartitions,
  makeMetricsPartitions,
  makeWebhookPartitions,
} from '../../db/upkeep/maintenance.ts';
import {
  purgeEndedSandboxes,
  purgeEvents,
  purgeNotifications,
  purgeReplies,
  purgeSignIns,
  purgeWebhookDeliveries,
  type Retention,
} from '../../db/upkeep/retention.ts';
import { pauseSandboxes, warnOfQuotas } from '../../db/usage/metered-quotas.ts';
import { keepUsage, type UsageUpkeep } from '../../db/usage/usage-upkeep.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** Upkeep of the platform's own tables. Each activity may be repeated at any time. */
export function createMaintenanceActivities({
  orm,
  retention,
  settings,
}: {
  orm: Orm;
  retention: Retention;
  settings: Pick<Settings, 'PLATFORM_USAGE_EVENTS_KEPT_MONTHS' | 'PLATFORM_USED_UP_QUOTA'>;
}) {
  return {
    /** Makes the partitions of the coming days in advance. @returns the number of new partitions */
    makeMetricsPartitions: (): Promise<number> => makeMetricsPartitions(orm.em),
    /** @returns the number of dropped partitions */
    dropOldMetricsPartitions: (): Promise<number> => dropOldMetricsPartitions(orm.em),
    /** Makes the partitions of the coming weeks. @returns the number of new partitions */
    makeWebhookPartitions: (): Promise<number> => makeWebhookPartitions(orm.em),
    /** @returns the number of dropped partitions */
    dropOldWebhookPartitions: (): Promise<number> => dropOldWebhookPartitions(orm.em, retention.webhookDeliveriesDays),
    /**
     * Records measured usage, adds usage events to their sums, warns users whose quotas are nearly used up, and starts
     * missing workflows of budgets.
     */
    async keepUsage(): Promise<UsageUpkeep> {
      const done = await keepUsage(orm.em, settings.PLATFORM_USAGE_EVENTS_KEPT_MONTHS);
      const refused = await countRefusedUsage(orm.em);
      if (refused > 0) log.error('usage was refused, because no sandbox or image can have used that much', { refused });
      for (const user of await warnOfQuotas(orm.em, new Date())) {
        if (settings.PLATFORM_USED_UP_QUOTA === 'pause') await pauseSandboxes(orm.em, user);
      }
      await reviveBudgetChecks(orm.em);
      return done;
    },
    /** @returns the number of deleted deliveries */
    purgeWebhookDeliveries: (): Promise<number> => purgeWebhookDeliveries(orm.em, retention),
    /** @returns the number of deleted replies */
    purgeIdempotencyKeys: (): Promise<number> => purgeReplies(orm.em, retention),
    /** @returns the number of deleted events */
    purgeEvents: (): Promise<number> => purgeEvents(orm.em, retention),
    /** @returns the number of deleted notifications */
    purgeNotifications: (): Promise<number> => purgeNotifications(orm.em, retention),
    /** @returns the number of deleted rows of sessions, links and failed sign-ins */
    purgeSignIns: (): Promise<number> => purgeSignIns(orm.em),
    /** @returns the number of deleted rows of ended sandboxes */
    purgeEndedSandboxes: (): Promise<number> => purgeEndedSandboxes(orm.em, retention),
  };
}

export type MaintenanceActivities = ReturnType<typeof createMaintenanceActivities>;
