import { AppError } from '../../domain/errors.ts';
import type { UsageWindow } from '../../domain/usage/window.ts';
import { timeQuery } from './fields.ts';

const dayMs = 86_400_000;
const defaultDays = 30;
/** A year, including a leap day. */
const maxDays = 366;
const [firstMs, lastMs] = [Date.UTC(2000), Date.UTC(2200)];

const form = 'ISO 8601, Unix seconds or milliseconds';

/** Bounds of a report. Spread them into the route's query schema. */
export const windowQuery = {
  start: timeQuery().describe(`${form}; default ${defaultDays} days before the end`),
  end: timeQuery().describe(`${form}; default now. At most ${maxDays} days after the start`),
};

/** Bounds of a list. Spread them into the route's query schema. */
export const boundsQuery = {
  start: timeQuery().describe(`${form}; default: from the beginning`),
  end: timeQuery().describe(`${form}; default: up to now`),
};

interface AskedBounds {
  start?: Date | undefined;
  end?: Date | undefined;
}

/**
 * The window of a report.
 * @throws {AppError} `invalid_date_range`
 */
export function resolveWindow(asked: AskedBounds, now: Date): UsageWindow {
  const end = asked.end ?? now;
  const start = asked.start ?? new Date(end.getTime() - defaultDays * dayMs);
  requireOrder({ start, end });
  if (end.getTime() - start.getTime() > maxDays * dayMs)
    throw invalid(`start and end are more than ${maxDays} days apart`);
  return { start, end };
}

/**
 * The bounds of a list.
 * @throws {AppError} `invalid_date_range`
 */
export function resolveBounds(asked: AskedBounds, now: Date): UsageWindow {
  // An item that ends at this moment belongs to the list.
  const window = { start: asked.start ?? new Date(firstMs), end: asked.end ?? new Date(now.getTime() + dayMs) };
  requireOrder(window);
  return window;
}

function requireOrder({ start, end }: UsageWindow): void {
  for (const [name, time] of Object.entries({ start, end })) {
    if (time.getTime() < firstMs || time.getTime() > lastMs) throw invalid(`${name} must be from 2000 to 2200`, name);
  }
  if (start > end) throw invalid('start must not be after end');
}

function invalid(reason: string, path = 'start'): AppError {
  return new AppError('invalid_date_range', `Invalid date range: ${reason}`, { details: [{ path, reason }] });
}
