import { z } from 'zod';
import { readSandboxStats } from '../../../db/repositories/sandbox-reads.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { callerOf } from '../../plugins/authentication.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';

const count = () => z.int().min(0);
const statsSchema = z.object({
  total_sandboxes: count(),
  running_sandboxes: count(),
  terminated_sandboxes: count(),
  failed_sandboxes: count(),
  avg_cpu_usage: z.number().nullable().describe('Percent; null: nothing was measured'),
  avg_memory_usage: z.number().nullable().describe('Percent; null: nothing was measured'),
  total_uptime_hours: z.number().min(0).describe('Hours of running, present phases included'),
});

/** `GET /v1/sandboxes/stats` (section 4.1), over the sandboxes the caller's list shows. */
export function getSandboxStats(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/stats',
    schema: {
      operationId: 'getSandboxStats',
      tags: ['Sandboxes'],
      summary: 'Count sandboxes',
      response: { 200: envelope(statsSchema, 'The counts'), ...failures() },
    },
    handler: async (request) => {
      const stats = await readSandboxStats(deps.orm.em.fork(), callerOf(request), new Date());
      return success({
        total_sandboxes: stats.total,
        running_sandboxes: stats.running,
        terminated_sandboxes: stats.terminated,
        failed_sandboxes: stats.failed,
        // Usage is not measured yet, and a number made from reservations would pretend that it is.
        avg_cpu_usage: null,
        avg_memory_usage: null,
        total_uptime_hours: stats.uptimeHours,
      });
    },
  });
}
