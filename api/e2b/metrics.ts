import { z } from 'zod';
import { readMetrics } from '../../db/usage/sandbox-metrics.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { metricsRange } from '../../domain/usage/metrics-range.ts';
import { anyUser } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { sandboxPath } from '../routes/sandboxes/reply.ts';
import { optionalQuery, time } from '../schemas/fields.ts';
import { readLivingSandbox } from './sandbox-reply.ts';

/** Unix seconds. */
const seconds = () => optionalQuery(z.coerce.number().int().min(0).max(253_402_300_799));

const metric = z.object({
  timestamp: time(),
  timestampUnix: z.int(),
  cpuCount: z.int(),
  cpuUsedPct: z.number(),
  memUsed: z.int(),
  memTotal: z.int(),
  memCache: z.int(),
  diskUsed: z.int(),
  diskTotal: z.int(),
});

/** A longer time has longer steps. */
const maxItems = 1000;

/** `GET /sandboxes/{sandboxID}/metrics`: from its creation, unless the caller names a time. */
export function getE2bSandboxMetrics(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/metrics`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      params: sandboxPath,
      querystring: z.object({ start: seconds(), end: seconds() }),
      response: { 200: z.array(metric) },
    },
    handler: async (request) => {
      const sandbox = await readLivingSandbox(deps, request, request.params.sandbox_id);
      const { start, end } = request.query;
      const now = new Date();
      const asked = {
        start: start === undefined ? sandbox.createdAt : new Date(start * 1000),
        end: end === undefined ? now : new Date(end * 1000),
      };
      const items = await readMetrics(deps.orm.em, sandbox.sandboxId, metricsRange(asked, now, maxItems), now);
      return items.map((item) => ({
        timestamp: item.at,
        timestampUnix: Math.floor(item.at.getTime() / 1000),
        cpuCount: item.cpuCount,
        cpuUsedPct: item.cpuUsedPct,
        memUsed: item.memUsed,
        memTotal: item.memTotal,
        // The samples are without file cache that the kernel can drop.
        memCache: 0,
        diskUsed: item.diskUsed,
        diskTotal: item.diskTotal,
      }));
    },
  });
}
