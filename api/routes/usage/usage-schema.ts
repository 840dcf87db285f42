import { z } from 'zod';
import { usagePrices } from '../../../db/billing/usage-prices.ts';
import type { UsageGroup, UsageGrouping, UsageTotals } from '../../../db/usage/usage-reports.ts';
import type { SessionCounts } from '../../../db/usage/usage-sessions.ts';
import type { UsageWindow } from '../../../domain/usage/window.ts';
import { optionalQuery, time } from '../../schemas/fields.ts';

const amount = () => z.number().min(0);
const sessions = () => z.int().min(0);

/** Totals of usage. `used` is measured and not charged. */
export const totalsFields = {
  total_cpu_hours: amount().describe('Hours of one core, reserved while sandboxes run'),
  total_memory_gb_hours: amount().describe('GB × hours, reserved while sandboxes run'),
  total_storage_gb_hours: amount().describe('GB × hours of the disks of running and paused sandboxes'),
  total_traffic_gb: amount().describe('GB sent and received'),
  total_template_storage_gb_hours: amount().describe('GB × hours of the images of templates'),
  total_cpu_hours_used: amount().describe('Hours of one core that were used; not charged'),
  total_memory_gb_hours_used: amount().describe('GB × hours of memory that were used; not charged'),
  total_cost: amount().describe('At the prices of that time; a plan may include it'),
};

export function presentTotals(totals: UsageTotals) {
  return {
    total_cpu_hours: totals.cpuHours,
    total_memory_gb_hours: totals.memoryGbHours,
    total_storage_gb_hours: totals.storageGbHours,
    total_traffic_gb: totals.trafficGb,
    total_template_storage_gb_hours: totals.templateStorageGbHours,
    total_cpu_hours_used: totals.cpuHoursUsed,
    total_memory_gb_hours_used: totals.memoryGbHoursUsed,
    total_cost: totals.cost,
  };
}

export const summarySchema = z
  .object({
    total_sessions: sessions().describe('Sandboxes that ran or were paused at some time in the period'),
    active_sessions: sessions(),
    completed_sessions: sessions(),
    failed_sessions: sessions(),
    ...totalsFields,
    avg_session_duration: amount().describe('Seconds; 0: there is no session'),
    currency: z.string(),
  })
  .meta({ id: 'UsageSummary' });

export function presentSummary(totals: UsageTotals, counts: SessionCounts): z.output<typeof summarySchema> {
  return {
    total_sessions: counts.total,
    active_sessions: counts.active,
    completed_sessions: counts.completed,
    failed_sessions: counts.failed,
    ...presentTotals(totals),
    avg_session_duration: counts.averageSeconds ?? 0,
    currency: usagePrices.currency,
  };
}

export const timePeriodSchema = z.object({ start: time(), end: time() });
export const presentPeriod = ({ start, end }: UsageWindow) => ({ start, end });

const columns = ['project_id', 'user_id'] as const;
const metadataPrefix = 'metadata.';
const maxKeyLength = 256;

/** Query parameter of reports. Spread it into the route's query schema. */
export const groupQuery = {
  group_by: optionalQuery(
    z
      .string()
      .max(metadataPrefix.length + maxKeyLength)
      .transform((text, context): UsageGrouping => {
        const column = columns.find((name) => name === text);
        if (column) return { column };
        if (text.startsWith(metadataPrefix) && text.length > metadataPrefix.length) {
          return { metadataKey: text.slice(metadataPrefix.length) };
        }
        context.addIssue({ code: 'custom', message: `must be ${columns.join(', ')} or metadata.<key>` });
        return z.NEVER;
      }),
  ).describe('`project_id`, `user_id`, or `metadata.<key>` of the sandboxes: adds `groups` to the reply'),
};

export const groupsFields = {
  groups: z
    .array(z.object({ value: z.string().nullable().describe('Null: usage without this key'), ...totalsFields }))
    .nullable()
    .describe('Highest cost first; null without `group_by`'),
  total_groups: z
    .int()
    .min(0)
    .nullable()
    .describe('Larger than the number of `groups` if the reply does not have all of them'),
};

export function presentGroups(grouped: { groups: UsageGroup[]; total: number } | null) {
  if (!grouped) return { groups: null, total_groups: null };
  const groups = grouped.groups.map(({ value, totals }) => ({ value, ...presentTotals(totals) }));
  return { groups, total_groups: grouped.total };
}
