import { useRead } from '../api/queries.ts';
import type { Filter } from './list.tsx';
import { usePageSearch } from './page-search.ts';

/** The bounds of a time, as requests take them. Without an end it lasts until now. */
export interface Span {
  start?: string;
  end?: string;
}

const dayMs = 86_400_000;
const daysOf: Readonly<Record<string, number>> = { '7d': 7, '30d': 30, '90d': 90 };
const days: readonly Filter[] = [
  { name: 'from', label: 'First day (UTC)', isDay: true },
  { name: 'to', label: 'Last day (UTC)', isDay: true },
];

/**
 * The time that a report or a list covers, which the person chooses in its filters. It begins and ends with days in UTC,
 * as the days of charts do.
 * @param without the choice when the address has none: the last 30 days, or any time
 * @returns the span, null until the period of the subscription is known, and the filters
 */
export function useSpan(without: '30d' | 'any'): { span: Span | null; filters: readonly Filter[] } {
  const [search] = usePageSearch();
  const chosen = search.span ?? without;
  const subscription = useRead('getSubscription', {}, { when: chosen === 'period' });
  const choice: Filter = {
    name: 'span',
    label: 'Time',
    without: without === 'any' ? 'Any time' : 'Last 30 days',
    options: [
      ['period', 'This billing period'],
      ['7d', 'Last 7 days'],
      ...(without === 'any' ? ([['30d', 'Last 30 days']] as const) : []),
      ['90d', 'Last 90 days'],
      ['own', 'Own dates'],
    ],
  };
  if (chosen === 'own') {
    return { span: spanOf(timeOf(search.from), timeOf(search.to, dayMs)), filters: [choice, ...days] };
  }
  if (chosen === 'period') {
    const start = subscription.data?.subscription.current_period_start;
    return { span: start === undefined && !subscription.error ? null : spanOf(start), filters: [choice] };
  }
  const count = daysOf[chosen];
  const today = Math.floor(Date.now() / dayMs) * dayMs;
  const start = count === undefined ? undefined : new Date(today - (count - 1) * dayMs).toISOString();
  return { span: spanOf(start), filters: [choice] };
}

function spanOf(start: string | undefined, end?: string): Span {
  return { ...(start !== undefined && { start }), ...(end !== undefined && { end }) };
}

/** The begin of a day in UTC. Years that the person has not written to the end are no day yet. */
function timeOf(day: string | undefined, laterMs = 0): string | undefined {
  const atMs = /^2\d{3}-\d{2}-\d{2}$/.test(day ?? '') ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(atMs) ? undefined : new Date(atMs + laterMs).toISOString();
}

/** The days from one time to another in UTC, such as 2026-05-04. */
export function daysBetween(start: string, end: string): string[] {
  const firstMs = Math.floor(Date.parse(start) / dayMs) * dayMs;
  const count = Math.ceil((Date.parse(end) - firstMs) / dayMs);
  return Array.from({ length: Math.max(count, 0) }, (_, index) =>
    new Date(firstMs + index * dayMs).toISOString().slice(0, 10),
  );
}
