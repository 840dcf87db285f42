import { formatMoney, formatPercent } from '../format/numbers.ts';
import { Chart } from './chart.tsx';
import { Empty } from './loaded.tsx';
import { daysBetween } from './span.ts';
import { nameOfKind } from './usage-kinds.ts';

/** What each kind of usage costs. */
export function CostsByKind(props: {
  costs: readonly { kind: string; cost: number; percentage: number }[];
  currency: string;
}) {
  const costs = props.costs.filter(({ cost }) => cost > 0);
  if (costs.length === 0) return <Empty>No usage in this time costs anything.</Empty>;
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Cost by kind of usage</caption>
        <thead>
          <tr>
            <th scope="col">Usage</th>
            <th scope="col" className="number">
              Cost
            </th>
            <th scope="col" className="number">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {costs.map(({ kind, cost, percentage }) => (
            <tr key={kind}>
              <td data-label="Usage">{nameOfKind(kind)}</td>
              <td data-label="Cost" className="number">
                {formatMoney(cost, props.currency)}
              </td>
              <td data-label="Share" className="number">
                {formatPercent(percentage / 100)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The cost of each day. The API leaves out days without usage. */
export function CostsByDay(props: {
  start: string;
  end: string;
  costs: readonly { date: string; cost: number }[];
  currency: string;
}) {
  const known = new Map(props.costs.map(({ date, cost }) => [date, cost]));
  return (
    <Chart
      title="Usage at its prices, by day (UTC)"
      kind="bar"
      series={[{ name: 'Cost', points: daysBetween(props.start, props.end).map((day) => [day, known.get(day) ?? 0]) }]}
      format={(value) => formatMoney(value, props.currency)}
    />
  );
}
