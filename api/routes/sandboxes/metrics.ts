import { z } from 'zod';
import { readMetrics } from '../../../db/usage/sandbox-metrics.ts';
import { metricsRange } from '../../../domain/usage/metrics-range.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { askedRange, metricsQuery } from './metrics-query.ts';
import { uptimeSeconds } from './present-sandbox.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxStatus } from './sandbox-schema.ts';

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
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
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
