import { useRead } from '../../api/queries.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import type { Grouping } from './groupings.tsx';
import { ReportChart } from './report-chart.tsx';
import type { ReportQuery } from './report-query.ts';
import { ReportTable } from './report-table.tsx';
import { SummaryFigures } from './summary-figures.tsx';

/** More columns than this cannot be read. The table has all. */
const drawnGroups = 12;
const longestLabel = 24;

/** The usage of each project, user or value of the metadata. */
export function GroupReport(props: { query: ReportQuery; groupBy: string; grouping: Grouping }) {
  const { query, groupBy, grouping } = props;
  const read = useRead('getUsageSummary', { query: { ...query, group_by: groupBy } });
  return (
    <Loaded read={read}>
      {({ summary, time_period: time, groups, total_groups: total }) => {
        const found = groups ?? [];
        const named = found.map((group) => labelOf(group.value, grouping));
        const labels = named.map((label, index) =>
          named.indexOf(label) === index ? label : `${label} (${index + 1})`,
        );
        return (
          <>
            <SummaryFigures summary={summary} />
            {found.length === 0 ? (
              <Empty>Nothing was used in this time.</Empty>
            ) : (
              <>
                <ReportChart
                  by={`by ${grouping.label.toLowerCase()}${found.length > drawnGroups ? `, the first ${drawnGroups}` : ''}`}
                  columns={found.slice(0, drawnGroups).map((totals, index) => ({ label: labels[index]!, totals }))}
                  currency={summary.currency}
                />
                {total !== null && total > found.length && (
                  <p className="note">
                    These are the {formatCount(found.length)} with the highest cost of {formatCount(total)}.
                  </p>
                )}
                <ReportTable
                  label={grouping.label}
                  columns={grouping.columns}
                  rows={found.map(({ value, ...totals }) => ({
                    value,
                    name: value === null ? undefined : grouping.nameOf(value),
                    shown: value === null ? grouping.none : grouping.show(value),
                    totals,
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

/** The name of a group below its column. */
function labelOf(value: string | null, { none, nameOf }: Grouping): string {
  const name = value === null ? none : visibleText(nameOf(value) ?? value);
  return name.length > longestLabel ? `${name.slice(0, longestLabel - 1)}…` : name;
}
