import { z } from 'zod';
import { readSandboxStats } from '../../../db/sandboxes/sandbox-reads.ts';
import { readUsageAverages } from '../../../db/usage/sandbox-metrics.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

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
      const scope = scopeOf(request);
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
