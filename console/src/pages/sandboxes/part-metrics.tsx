import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ApiError, call, type DataOf } from '../../api/client.ts';
import { Chart, type Series } from '../../components/chart.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { formatBytes, formatPercent } from '../../format/numbers.ts';
import { formatDuration } from '../../format/time.ts';
import type { Sandbox } from './sandbox-words.ts';

type Sample = DataOf<'getSandboxMetrics'>['metrics'][number];

interface Range {
  name: string;
  label: string;
  seconds: number;
  /** The platform averages over this time. */
  stepSeconds: number;
}

const ranges: readonly Range[] = [
  { name: '15m', label: '15 minutes', seconds: 900, stepSeconds: 5 },
  { name: '1h', label: '1 hour', seconds: 3600, stepSeconds: 10 },
  { name: '6h', label: '6 hours', seconds: 21_600, stepSeconds: 60 },
  { name: '24h', label: '24 hours', seconds: 86_400, stepSeconds: 300 },
  { name: '7d', label: '7 days', seconds: 604_800, stepSeconds: 1800 },
];

/** What the sandbox uses. It goes on by itself while the sandbox runs. */
export function Metrics({ sandbox }: { sandbox: Sandbox }) {
  const [search] = usePageSearch();
  const range = ranges.find(({ name }) => name === search.range) ?? ranges[0]!;
  const read = useMetrics(sandbox, range);
  return (
    <>
      <nav className="parts" aria-label="Time">
        {ranges.map((each) => (
          <Link
            key={each.name}
            to="."
            search={{ range: each.name }}
            activeOptions={{ exact: true }}
            aria-current={each === range ? 'page' : undefined}
          >
            {each.label}
          </Link>
        ))}
      </nav>
      <Loaded read={read}>
        {({ samples, startMs, endMs }) =>
          samples.length === 0 ? (
            <Empty>Nothing was measured in this time. A sandbox is measured while it runs, and kept for 7 days.</Empty>
          ) : (
            <Charts samples={samples} startMs={startMs} endMs={endMs} stepSeconds={range.stepSeconds} />
          )
        }
      </Loaded>
      <p className="soft">
        Averages of {formatDuration(range.stepSeconds)}. Traffic is counted by the hour: the overview has its sum.
      </p>
    </>
  );
}

function useMetrics({ sandbox_id, status }: Sandbox, { name, seconds, stepSeconds }: Range) {
  const path = { sandbox_id };
  return useQuery<{ samples: Sample[]; startMs: number; endMs: number }, ApiError>({
    // The bounds of the time move on, and are not a part of the key.
    queryKey: ['getSandboxMetrics', path, name],
    queryFn: async ({ signal }) => {
      const endMs = Date.now();
      const startMs = endMs - seconds * 1000;
      const query = { start: new Date(startMs).toISOString(), step: String(stepSeconds) };
      const { metrics: samples } = await call('getSandboxMetrics', { path, query }, signal);
      return { samples, startMs, endMs };
    },
    refetchInterval: status === 'running' ? stepSeconds * 1000 : false,
  });
}

interface Measured {
  samples: readonly Sample[];
  startMs: number;
  endMs: number;
  stepSeconds: number;
}

function Charts(props: Measured) {
  const last = props.samples.at(-1)!;
  const line = (name: string, value: (sample: Sample) => number): Series[] => [
    { name, points: pointsOf(props, value) },
  ];
  return (
    <div className="columns">
      <Section title="CPU">
        <Chart
          title={`Share of its ${last.cpu_count} CPUs`}
          kind="line"
          series={line('CPU', (sample) => sample.cpu_used_pct / 100)}
          format={formatPercent}
          max={1}
        />
      </Section>
      <Section title="Memory">
        <Chart
          title={`Used of ${formatBytes(last.mem_total)}, without file cache`}
          kind="line"
          series={line('Memory', (sample) => sample.mem_used)}
          format={formatBytes}
          max={last.mem_total}
        />
      </Section>
      <Section title="Disk">
        <Chart
          title={`Used of ${formatBytes(last.disk_total)}`}
          kind="line"
          series={line('Disk', (sample) => sample.disk_used)}
          format={formatBytes}
          max={last.disk_total}
        />
      </Section>
    </div>
  );
}

/** The points of a line over the whole time. The line has a gap where the sandbox was not measured. */
function pointsOf(props: Measured, value: (sample: Sample) => number): Series['points'] {
  const { samples, startMs, endMs, stepSeconds } = props;
  const points: [number, number | null][] = [[startMs, null]];
  let before: number | null = null;
  for (const sample of samples) {
    const at = Date.parse(sample.timestamp);
    if (before !== null && at - before > 2.5 * stepSeconds * 1000) points.push([before + 1, null]);
    points.push([at, value(sample)]);
    before = at;
  }
  return [...points, [endMs, null]];
}
