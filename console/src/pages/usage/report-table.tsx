import type { ReactNode } from 'react';
import { daysBetween } from '../../components/span.ts';
import { saveCsv, toCsv } from './csv.ts';
import { formatMeasure, measures, type Summary, type Totals } from './measures.ts';

/** A day or a group of a report. */
interface ReportRow {
  /** Its day or its id, as the API has it. */
  value: string | null;
  /** Its name, if the value is an id. */
  name?: string | undefined;
  /** How the table shows it. */
  shown: ReactNode;
  totals: Totals;
}

interface ReportTableProps {
  /** Of the file: the name of the column with the values, and that of their names. */
  columns: readonly [value: string, name?: string];
  label: string;
  rows: readonly ReportRow[];
  summary: Summary;
  time: { start: string; end: string };
}

/** The figures of a report, also as a file. */
export function ReportTable(props: ReportTableProps) {
  const { label, rows, summary } = props;
  return (
    <>
      <div className="section-header">
        <h2>{label}</h2>
        <button type="button" onClick={() => saveCsv(fileNameOf(props), csvOf(props))}>
          Download as CSV
        </button>
      </div>
      <div className="table-frame">
        <table>
          <caption className="hidden">{label}</caption>
          <thead>
            <tr>
              <th scope="col">{label}</th>
              {measures.map((measure) => (
                <th key={measure.name} scope="col" className="number">
                  {measure.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ value, shown, totals }) => (
              <tr key={value === null ? 'null' : `value ${value}`}>
                <td data-label={label}>{shown}</td>
                <Figures totals={totals} currency={summary.currency} />
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <td data-label={label}>
                <strong>All</strong>
              </td>
              <Figures totals={summary} currency={summary.currency} />
            </tr>
          </tfoot>
        </table>
      </div>
    </>
  );
}

function Figures({ totals, currency }: { totals: Totals; currency: string }) {
  return measures.map(({ name, label }) => (
    <td key={name} data-label={label} className="number">
      {formatMeasure(name, totals[name], currency)}
    </td>
  ));
}

function csvOf({ columns, rows, summary }: ReportTableProps): string {
  const [valueColumn, nameColumn] = columns;
  const heading = [valueColumn, ...(nameColumn ? [nameColumn] : []), ...measures.map(({ name }) => name), 'currency'];
  const lines = rows.map(({ value, name, totals }) => [
    value,
    ...(nameColumn ? [name ?? null] : []),
    ...measures.map((measure) => totals[measure.name]),
    summary.currency,
  ]);
  return toCsv([heading, ...lines]);
}

function fileNameOf({ columns, time }: ReportTableProps): string {
  const days = daysBetween(time.start, time.end);
  return `usage-by-${columns[0]}-${days[0]}-${days.at(-1)}.csv`;
}
