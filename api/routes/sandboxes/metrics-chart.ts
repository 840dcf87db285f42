import { z } from 'zod';
import { type MetricsItem, readMetrics } from '../../../db/usage/sandbox-metrics.ts';
import { formatDuration, type MetricsRange, metricsRange, sampleSeconds } from '../../../domain/usage/metrics-range.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { askedRange, metricsQuery } from './metrics.ts';
import { readSandboxRow, sandboxPath, sandboxStatus } from './reply.ts';

const mib = 1024 ** 2;

/** `[Unix milliseconds, value]`. A null value interrupts the line where there are no measurements. */
const series = z.array(z.tuple([z.number(), z.number().nullable()]));

const chartSeriesSchema = z.object({
  cpu_usage: series.describe('Percent of all its cores'),
  memory_usage: series.describe('MiB'),
  disk_usage: series.describe('MiB'),
});
type ChartSeries = z.output<typeof chartSeriesSchema>;
type SeriesName = keyof ChartSeries;

/** The form of ECharts' `markLine`. */
const markLine = z.object({
  silent: z.boolean(),
  symbol: z.literal('none'),
  label: z.object({ formatter: z.string(), position: z.literal('insideEndTop') }),
  lineStyle: z.object({ type: z.literal('dashed') }),
  data: z.array(z.object({ name: z.string(), yAxis: z.number() })),
});

const referenceLimitsSchema = z.object({ cpu_usage: markLine, memory_usage: markLine, disk_usage: markLine });
type ReferenceLimits = z.output<typeof referenceLimitsSchema>;

/** The limits of the sandbox. */
interface ChartLimits {
  cpuCount: number;
  memoryMb: number;
  diskMb: number;
}

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
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
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

/** The points of each line, with a null between two points that have a missing step between them. */
function chartSeries(items: readonly MetricsItem[], stepSeconds: number): ChartSeries {
  const stepMs = Math.max(stepSeconds, sampleSeconds) * 1000;
  const line = (value: (item: MetricsItem) => number): [number, number | null][] =>
    items.flatMap((item, index) => {
      const at = item.at.getTime();
      const before = items[index - 1]?.at.getTime() ?? at;
      const point: [number, number | null] = [at, Math.round(value(item) * 100) / 100];
      return at - before > 1.5 * stepMs ? [[before + stepMs, null], point] : [point];
    });
  return {
    cpu_usage: line((item) => item.cpuUsedPct),
    memory_usage: line((item) => item.memUsed / mib),
    disk_usage: line((item) => item.diskUsed / mib),
  };
}

/** A line at the sandbox's limit across each panel. */
function referenceLimits({ cpuCount, memoryMb, diskMb }: ChartLimits): ReferenceLimits {
  const limit = (name: string, yAxis: number): ReferenceLimits[SeriesName] => ({
    silent: true,
    symbol: 'none',
    label: { formatter: name, position: 'insideEndTop' },
    lineStyle: { type: 'dashed' },
    data: [{ name, yAxis }],
  });
  return {
    cpu_usage: limit(cpuCount === 1 ? '1 core' : `${cpuCount} cores`, 100),
    memory_usage: limit(`${memoryMb} MiB`, memoryMb),
    disk_usage: limit(`${diskMb} MiB`, diskMb),
  };
}

const panels: readonly { name: SeriesName; title: string; unit: string }[] = [
  { name: 'cpu_usage', title: 'CPU', unit: '%' },
  { name: 'memory_usage', title: 'Memory', unit: 'MiB' },
  { name: 'disk_usage', title: 'Disk', unit: 'MiB' },
];

/** An ECharts option with its data. `chart.setOption(chart_config)` draws one panel for each line. */
function chartOption(lines: ChartSeries, limits: ReferenceLimits, range: MetricsRange): Record<string, unknown> {
  const place = (index: number) => `${8 + index * 31}%`;
  const isLast = (index: number) => index === panels.length - 1;
  return {
    animation: false,
    tooltip: { trigger: 'axis' },
    axisPointer: { link: [{ xAxisIndex: 'all' }] },
    grid: panels.map((_, index) => ({ left: 72, right: 32, top: place(index), height: '22%' })),
    xAxis: panels.map((_, gridIndex) => ({
      type: 'time',
      gridIndex,
      min: range.start.getTime(),
      max: range.end.getTime(),
      axisLabel: { show: isLast(gridIndex), hideOverlap: true },
    })),
    yAxis: panels.map(({ name, title, unit }, gridIndex) => ({
      type: 'value',
      gridIndex,
      name: `${title} (${unit})`,
      nameTextStyle: { align: 'left' },
      min: 0,
      // Leaves a margin above the limit, so that its line is visible.
      max: Math.ceil(limits[name].data[0]!.yAxis * 1.1),
      splitNumber: 4,
      axisLabel: { showMaxLabel: false },
    })),
    series: panels.map(({ name, title }, index) => ({
      id: name,
      name: title,
      type: 'line',
      xAxisIndex: index,
      yAxisIndex: index,
      showSymbol: lines[name].length < 2,
      connectNulls: false,
      areaStyle: { opacity: 0.15 },
      data: lines[name],
      markLine: limits[name],
    })),
  };
}
