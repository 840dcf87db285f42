import { z } from 'zod';
import { readMetrics } from '../../../db/usage/sandbox-metrics.ts';
import { formatDuration, metricsRange } from '../../../domain/usage/metrics-range.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import {
  chartOption,
  chartSeries,
  chartSeriesSchema,
  referenceLimits,
  referenceLimitsSchema,
} from './metrics-chart-option.ts';
import { askedRange, metricsQuery } from './metrics-query.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxStatus } from './sandbox-schema.ts';

/** A chart gains nothing from more points than a screen has columns. */
const pointsAtMost = 1440;

const chartSchema = z.object({
  sandbox_id: z.string(),
  status: sandboxStatus,
  time_window: z.object({ start: time(), end: time(), step: z.string().describe('As in the query') }),
  chart_config: z
    .record(z.string(), z.unknown())
    .describe('An ECharts 5 or 6 option with its data: `setOption` draws it'),
  metrics: chartSeriesSchema.describe('Only the lines, as ECharts data'),
  reference_limits: referenceLimitsSchema.describe('The limits of the sandbox, as an ECharts `markLine` for each line'),
});

/** `GET /v1/sandboxes/{sandbox_id}/metrics/chart`. */
export function getSandboxMetricsChart(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/metrics/chart',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxMetricsChart',
      tags: ['Sandboxes'],
      summary: 'Read the use of a sandbox as a chart for ECharts',
      description: 'The lines of `…/metrics` as an option for ECharts, with the limits of the sandbox for reference.',
      params: sandboxPath,
      querystring: metricsQuery,
      response: { 200: envelope(chartSchema, 'The chart'), ...failures('not_found') },
    },
    handler: async (request) => {
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
      const now = new Date();
      const range = metricsRange(askedRange(request.query), now, pointsAtMost);
      const items = await readMetrics(deps.orm.em, sandbox.sandboxId, range, now);
      const lines = chartSeries(items, range.stepSeconds);
      const limits = referenceLimits({
        cpuCount: sandbox.cpuCount,
        memoryMb: sandbox.memoryMb,
        // The measured size of the disk, which is the size at the creation less the overhead of the file system.
        diskMb: items.length > 0 ? Math.round(items.at(-1)!.diskTotal / 1024 ** 2) : sandbox.storageGb * 1024,
      });
      return success({
        sandbox_id: sandbox.sandboxId,
        status: sandbox.status,
        time_window: { start: range.start, end: range.end, step: formatDuration(range.stepSeconds) },
        chart_config: chartOption(lines, limits, range),
        metrics: lines,
        reference_limits: limits,
      });
    },
  });
}
