import { DateTime } from 'luxon';

/** The interval of samples; a finer step would only repeat them. */
export const sampleSeconds = 5;
/** How long metrics are kept. */
export const metricsKeptDays = 7;

const defaultRangeMs = 300_000;
/** Longer than every accepted form of a time or a duration. */
const maxTimeText = 64;

type Unit = keyof typeof unitSeconds;

/** The maximum number of items in one reply. A longer range has larger steps. */
const maxItems = 10_080;

/** The query. Absent fields have their defaults. */
export interface AskedRange {
  start?: Date | undefined;
  end?: Date | undefined;
  stepSeconds?: number | undefined;
}

export interface MetricsRange {
  start: Date;
  end: Date;
  stepSeconds: number;
}

/**
 * The range of the reply, by default the last five minutes. Bounds in the wrong order are swapped. The range begins no
 * earlier than the oldest kept metrics. The step is not finer than the samples, and large enough that the reply has at
 * most `itemsAtMost` items.
 */
export function metricsRange(asked: AskedRange, now: Date, itemsAtMost = maxItems): MetricsRange {
  const endMs = (asked.end ?? now).getTime();
  const startMs = asked.start?.getTime() ?? now.getTime() - defaultRangeMs;
  const oldestMs = now.getTime() - metricsKeptDays * 86_400_000;
  const fromMs = Math.max(oldestMs, Math.min(startMs, endMs));
  const toMs = Math.max(fromMs, startMs, endMs);
  // The future has no samples, so it adds no items.
  const coveredSeconds = Math.max(0, Math.min(toMs, now.getTime()) - fromMs) / 1000;
  const stepSeconds = stepFor(asked.stepSeconds ?? sampleSeconds, coveredSeconds, itemsAtMost);
  return { start: new Date(fromMs), end: new Date(toMs), stepSeconds };
}

/** Rounds a step of minutes up to whole minutes, because the database then reads far fewer rows. */
function stepFor(askedSeconds: number, coveredSeconds: number, itemsAtMost: number): number {
  const needed = Math.max(askedSeconds, sampleSeconds, coveredSeconds / itemsAtMost);
  if (needed === askedSeconds) return askedSeconds;
  const unit = needed > 60 ? 60 : sampleSeconds;
  return Math.ceil(needed / unit) * unit;
}

/**
 * Reads a time in any form of ISO 8601 (UTC if it has no zone; a space may replace the `T`), or in Unix seconds or
 * milliseconds. Four digits are a year and eight are a date, because as seconds both would be in 1970. Null: the text
 * has no such form, or its year is not from 1 to 9999, which the database cannot read.
 */
export function parseTime(text: string): Date | null {
  const word = text.trim().toUpperCase();
  if (word.length > maxTimeText) return null;
  if (/^\d+(?:\.\d+)?$/.test(word) && !/^(?:\d{4}|\d{8})$/.test(word)) {
    const number = Number(word);
    // 10^11 is the year 5138 in seconds and the year 1973 in milliseconds.
    return inReadableYears(new Date(number < 1e11 ? number * 1000 : number));
  }
  // A plus sign that was not percent-encoded arrives as a space.
  const iso = word
    .replace(/ (?=\d\d:?\d\d$)(?<=[T ].+)/, '+')
    .replace(/ (?=[-+Z])/, '')
    .replace(' ', 'T');
  const read = DateTime.fromISO(iso, { zone: 'utc' });
  return read.isValid ? inReadableYears(read.toJSDate()) : null;
}

function inReadableYears(date: Date): Date | null {
  const year = date.getUTCFullYear();
  return year >= 1 && year <= 9999 ? date : null;
}

const unitSeconds = { ns: 1e-9, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400 } as const;
const durationPart = /(\d{1,12}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h|d)/g;

/**
 * Seconds of a duration such as `5s`, `1m30s`, `1.5h` or `500ms`, rounded up to a whole second. A bare number is
 * seconds. The units are those of Go's time.ParseDuration, and `d`. Null: the text is no duration, is zero, or is
 * longer than metrics are kept.
 */
export function parseDurationSeconds(text: string): number | null {
  const word = text.trim().toLowerCase();
  if (word.length > maxTimeText) return null;
  const written = /^\d+$/.test(word) ? `${word}s` : word;
  const parts = [...written.matchAll(durationPart)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== written) return null;
  const total = parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * unitSeconds[unit as Unit], 0);
  // Sums of decimal fractions have small floating-point errors.
  const seconds = Math.ceil(Number(total.toFixed(6)));
  return seconds >= 1 && seconds <= metricsKeptDays * 86_400 ? seconds : null;
}

/** The shortest form of a duration that `parseDurationSeconds` reads. */
export function formatDuration(seconds: number): string {
  for (const unit of ['d', 'h', 'm'] as const) {
    if (seconds % unitSeconds[unit] === 0) return `${seconds / unitSeconds[unit]}${unit}`;
  }
  return `${seconds}s`;
}
