import { useRead } from '../../api/queries.ts';
import { Chart } from '../../components/chart.tsx';
import { CostsByKind } from '../../components/costs.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { daysBetween } from '../../components/span.ts';
import { formatCount } from '../../format/numbers.ts';
import { ReportChart } from './report-chart.tsx';
import type { ReportQuery } from './report-query.ts';
import { ReportTable } from './report-table.tsx';
import { SummaryFigures } from './summary-figures.tsx';

/** The usage of each day. */
export function DayReport({ query }: { query: ReportQuery }) {
  const read = useRead('getUsageAnalytics', { query });
  return (
    <Loaded read={read}>
      {({ summary, time_period: time, charts }) => {
        const used = new Map(charts.resource_utilization.map((each) => [each.date, each]));
        const begun = new Map(charts.sessions_over_time.map(({ date, sessions }) => [date, sessions]));
        const days = daysBetween(time.start, time.end);
        const costs = charts.cost_breakdown.map(({ usage_type, cost, percentage }) => ({
          ...{ kind: usage_type, cost, percentage },
        }));
        return (
          <>
            <SummaryFigures summary={summary} />
            {used.size === 0 ? (
              <Empty>Nothing was used in this time.</Empty>
            ) : (
              <>
                <ReportChart
                  by="by day (UTC)"
                  columns={days.map((day) => ({ label: day, totals: used.get(day) ?? null }))}
                  currency={summary.currency}
                />
                <div className="columns">
                  <Section title="Sandboxes begun">
                    <Chart
                      title="Sandboxes that ran for the first time, by day (UTC)"
                      kind="bar"
                      series={[{ name: 'Sandboxes', points: days.map((day) => [day, begun.get(day) ?? 0]) }]}
                      format={formatCount}
                    />
                  </Section>
                  <Section title="Cost by kind">
                    <CostsByKind costs={costs} currency={summary.currency} />
                  </Section>
                </div>
                <ReportTable
                  label="Day (UTC)"
                  columns={['day']}
                  rows={charts.resource_utilization.map((totals) => ({
                    ...{ value: totals.date, shown: totals.date, totals },
                  }))}
                  summary={summary}
                  time={time}
                />
              </>
            )}
          </>
        );
      }}
    </Loaded>
  );
}
