import { Chart } from '../../components/chart.tsx';
import { Filters } from '../../components/list.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { charts, formatMeasure, measures, type Totals } from './measures.ts';

/** A chart of one kind of usage by day or by group. The person chooses the kind. */
export function ReportChart(props: {
  /** Such as `by day`. */
  by: string;
  columns: readonly { label: string; totals: Totals | null }[];
  currency: string;
}) {
  const [search] = usePageSearch();
  const chosen = charts.find(({ name }) => name === search.chart) ?? charts[0]!;
  const others = charts.slice(1).map(({ name, label }) => [name, label] as const);
  const labelOf = (name: keyof Totals) => measures.find((each) => each.name === name)!.label;
  return (
    <section className="section" aria-label="Chart">
      <Filters filters={[{ name: 'chart', label: 'Chart', without: charts[0]!.label, options: others }]} />
      <Chart
        title={`${chosen.label} ${props.by}`}
        kind="bar"
        series={chosen.measures.map((name) => ({
          name: labelOf(name),
          points: props.columns.map(({ label, totals }) => [label, totals?.[name] ?? 0] as const),
        }))}
        format={(value) => formatMeasure(chosen.measures[0]!, value, props.currency)}
      />
    </section>
  );
}
