import { z } from 'zod';
import { readSandboxStats } from '../../../db/sandboxes/sandbox-reads.ts';
import { readMetrics, readUsageAverages } from '../../../db/usage/sandbox-metrics.ts';
import { type AskedRange, metricsRange, parseDurationSeconds } from '../../../domain/usage/metrics-range.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalQuery, time, timeQuery } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readSandboxRow, sandboxPath, sandboxStatus, uptimeSeconds } from './reply.ts';

const bound = (defaultText: string) =>
  timeQuery().describe(`ISO 8601, Unix seconds or milliseconds; default ${defaultText}; swapped bounds are put right`);

const step = optionalQuery(
  z
    .string()
    .max(64)
    .transform((text, context) => {
      const seconds = parseDurationSeconds(text);
      if (seconds !== null) return seconds;
      context.addIssue({
        code: 'custom',
        message: 'must be seconds, or a duration such as 5s, 1m30s or 1h, up to 7 days',
      });
      return z.NEVER;
    }),
).describe(
  'Seconds, or a duration such as 5s, 1m30s, 1h; default 5. A longer step is used if the reply would be too long',
);

/** Query of both routes on metrics. */
export const metricsQuery = z.object({ start: bound('5 minutes ago'), end: bound('now'), step });

export function askedRange(query: z.output<typeof metricsQuery>): AskedRange {
  return { start: query.start, end: query.end, stepSeconds: query.step };
}

const bytes = () => z.int().min(0).describe('Bytes');

const metricsItem = z
  .object({
    timestamp: time().describe('The beginning of the step'),
    cpu_count: z.int(),
    cpu_used_pct: z.number().min(0).max(100).describe('Percent of all its cores'),
    disk_total: bytes(),
    disk_used: bytes(),
    mem_total: bytes(),
    mem_used: bytes().describe('Bytes, without file cache that the kernel can drop'),
  })
  .meta({ id: 'SandboxMetrics' });

const metricsSchema = z.object({
  sandbox_id: z.string(),
  timestamp: time(),
  status: sandboxStatus,
  uptime_seconds: z.int().min(0),
  metrics: z
    .array(metricsItem)
    .describe('Averages of each step, oldest first; steps in which the sandbox did not run are left out'),
  error: z.string().optional().describe('The reason why there are no items'),
});

/** `GET /v1/sandboxes/{sandbox_id}/metrics`. */
export function getSandboxMetrics(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/metrics',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxMetrics',
      tags: ['Sandboxes'],
      summary: 'Read the use of a sandbox; samples of 5 seconds, kept for 7 days',
      description:
        'The default is the last five minutes in steps of five seconds. A longer step is used if the ' +
        'reply would have more than 10,080 items. There are no samples of times when the sandbox did not run.',
      params: sandboxPath,
      querystring: metricsQuery,
      response: { 200: envelope(metricsSchema, 'The metrics'), ...failures('not_found') },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const now = new Date();
      const items = await readMetrics(
        deps.orm.em,
        sandbox.sandboxId,
        metricsRange(askedRange(request.query), now),
        now,
      );
      return success({
        sandbox_id: sandbox.sandboxId,
        timestamp: now,
        status: sandbox.status,
        uptime_seconds: uptimeSeconds(sandbox, now),
        metrics: items.map((item) => ({
          timestamp: item.at,
          cpu_count: item.cpuCount,
          cpu_used_pct: item.cpuUsedPct,
          disk_total: item.diskTotal,
          disk_used: item.diskUsed,
          mem_total: item.memTotal,
          mem_used: item.memUsed,
        })),
        ...(items.length === 0 ? { error: 'The sandbox has no metrics for this time' } : {}),
      });
    },
  });
}

const count = () => z.int().min(0);
const percent = (what: string) =>
  z.number().nullable().describe(`${what}, over the last minute of those that run; null: none was measured`);
const statsSchema = z.object({
  total_sandboxes: count(),
  running_sandboxes: count(),
  terminated_sandboxes: count(),
  failed_sandboxes: count(),
  avg_cpu_usage: percent('Percent of their cores'),
  avg_memory_usage: percent('Percent of their memory'),
  total_uptime_hours: z.number().min(0).describe('Hours of running, including current phases'),
});

/** `GET /v1/sandboxes/stats`: statistics of the sandboxes in the caller's list. */
export function getSandboxStats(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/stats',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxStats',
      tags: ['Sandboxes'],
      summary: 'Count sandboxes',
      description:
        'Counts the sandboxes that the caller can list, by status, with the average use of the last minute; ' +
        'null if nothing was ' +
        'measured.',
      response: { 200: envelope(statsSchema, 'The counts'), ...failures() },
    },
    handler: async (request) => {
      const scope = requireScope(request);
      const now = new Date();
      const [stats, averages] = await Promise.all([
        readSandboxStats(deps.orm.em.fork(), scope, now),
        readUsageAverages(deps.orm.em.fork(), scope, now),
      ]);
      return success({
        total_sandboxes: stats.total,
        running_sandboxes: stats.running,
        terminated_sandboxes: stats.terminated,
        failed_sandboxes: stats.failed,
        avg_cpu_usage: averages.cpuPct,
        avg_memory_usage: averages.memoryPct,
        total_uptime_hours: stats.uptimeHours,
      });
    },
  });
}
