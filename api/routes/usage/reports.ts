import type { EntityManager } from '@mikro-orm/postgresql';
import { z } from 'zod';
import { usagePrices } from '../../../db/billing/usage-prices.ts';
import type { Scope } from '../../../db/core/scope.ts';
import {
  readCosts,
  readUsageByDay,
  readUsageGroups,
  readUsageTotals,
  type UsageGroup,
  type UsageGrouping,
  type UsageTotals,
} from '../../../db/usage/usage-reports.ts';
import { countSessions, type SessionCounts, sessionsByDay } from '../../../db/usage/usage-sessions.ts';
import { resourceTypes, usageTypeNames, usageTypes } from '../../../domain/usage/types.ts';
import type { UsageWindow } from '../../../domain/usage/window.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, time } from '../../schemas/fields.ts';
import { accountQuery } from '../../schemas/lists.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { resolveWindow, windowQuery } from '../../schemas/usage-window.ts';

const amount = () => z.number().min(0);
const sessions = () => z.int().min(0);

/** Totals of usage. `used` is measured and not charged. */
const totalsFields = {
  total_cpu_hours: amount().describe('Hours of one core, reserved while sandboxes run'),
  total_memory_gb_hours: amount().describe('GB × hours, reserved while sandboxes run'),
  total_storage_gb_hours: amount().describe('GB × hours of the disks of running and paused sandboxes'),
  total_traffic_gb: amount().describe('GB sent and received'),
  total_template_storage_gb_hours: amount().describe('GB × hours of the images of templates'),
  total_cpu_hours_used: amount().describe('Hours of one core that were used; not charged'),
  total_memory_gb_hours_used: amount().describe('GB × hours of memory that were used; not charged'),
  total_cost: amount().describe('At the prices of that time; a plan may include it'),
};

function presentTotals(totals: UsageTotals) {
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

const summarySchema = z
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

function presentSummary(totals: UsageTotals, counts: SessionCounts): z.output<typeof summarySchema> {
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

const timePeriodSchema = z.object({ start: time(), end: time() });
const presentPeriod = ({ start, end }: UsageWindow) => ({ start, end });

const columns = ['project_id', 'user_id'] as const;
const metadataPrefix = 'metadata.';
const maxKeyLength = 256;

/** Query parameter of reports. Spread it into the route's query schema. */
const groupQuery = {
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

const groupsFields = {
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

function presentGroups(grouped: { groups: UsageGroup[]; total: number } | null) {
  if (!grouped) return { groups: null, total_groups: null };
  const groups = grouped.groups.map(({ value, totals }) => ({ value, ...presentTotals(totals) }));
  return { groups, total_groups: grouped.total };
}

/** The query of a report. */
const reportQuery = z.object({
  ...windowQuery,
  ...accountQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  ...groupQuery,
});

/** The fields of every report. Spread them into the schema of the reply. */
const reportFields = { summary: summarySchema, time_period: timePeriodSchema, ...groupsFields };

/**
 * The common part of every report, and the parsed query.
 * @throws {AppError} `invalid_date_range`
 */
async function readReport(em: EntityManager, scope: Scope, asked: z.output<typeof reportQuery>) {
  const now = new Date();
  const window = resolveWindow(asked, now);
  const of = { scope, projectId: asked.project_id };
  const [totals, counts, groups] = await Promise.all([
    readUsageTotals(em, of, window, now),
    countSessions(em, of, window, now),
    asked.group_by ? readUsageGroups(em, of, window, asked.group_by, now) : null,
  ]);
  const shown = {
    summary: presentSummary(totals, counts),
    time_period: presentPeriod(window),
    ...presentGroups(groups),
  };
  return { of, window, now, shown };
}

/** `GET /v1/usage/summary`. */
export function getUsageSummary(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/summary',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getUsageSummary',
      tags: ['Usage'],
      summary: 'Sum up the usage of a period',
      description:
        'Returns sessions, hours and costs, up to now. Default: the last 30 days; at most 366 days. `group_by` adds ' +
        'sums by project, user or a key of the metadata.',
      querystring: reportQuery,
      response: {
        200: envelope(z.object(reportFields), 'What was used'),
        ...failures('invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { shown } = await readReport(deps.orm.em, requireScope(request), request.query);
      return success(shown);
    },
  });
}

const day = () => z.string().describe('A day (UTC), such as 2026-05-04');

const chartsSchema = z.object({
  sessions_over_time: z
    .array(
      z.object({ date: day(), sessions: z.int().min(0).describe('The number of sessions that began on this day') }),
    )
    .describe('Days without sessions are left out'),
  resource_utilization: z.array(z.object({ date: day(), ...totalsFields })).describe('Days without usage are left out'),
  cost_breakdown: z
    .array(
      z.object({
        usage_type: z.enum(usageTypeNames),
        resource_type: z.enum(resourceTypes),
        cost: z.number().min(0),
        percentage: z.number().min(0).max(100),
      }),
    )
    .describe('Highest cost first'),
});

/** `GET /v1/usage/analytics`. */
export function getUsageAnalytics(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/analytics',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getUsageAnalytics',
      tags: ['Usage'],
      summary: 'Sum up the usage of a period, by day and by cost',
      description:
        'Returns the sums of `GET /v1/usage/summary`, with charts by day and by cost. Default: the last 30 ' +
        'days; at most ' +
        'of 366.',
      querystring: reportQuery,
      response: {
        200: envelope(z.object({ ...reportFields, charts: chartsSchema }), 'What was used'),
        ...failures('invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { em } = deps.orm;
      const { of, window, now, shown } = await readReport(em, requireScope(request), request.query);
      const [sessions, days, costs] = await Promise.all([
        sessionsByDay(em, of, window),
        readUsageByDay(em, of, window, now),
        readCosts(em, of, window, now),
      ]);
      return success({
        ...shown,
        charts: {
          sessions_over_time: sessions,
          resource_utilization: days.map(({ date, totals: used }) => ({ date, ...presentTotals(used) })),
          cost_breakdown: costs.map(({ usageType, cost, percentage }) => ({
            usage_type: usageType,
            resource_type: usageTypes[usageType].resource,
            cost,
            percentage,
          })),
        },
      });
    },
  });
}
