/** Samples are this far apart; a finer step than that would only repeat them. */
export const sampleSeconds = 5;
/** How long metrics are kept. */
export const metricsKeptDays = 7;

const defaultRangeMs = 300_000;

/** No reply has more items than that; a longer range comes in larger steps. */
const maxItems = 10_080;

/** What was asked for; what is left out has its default. */
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
 * The range that is answered (section 4.1): five minutes up to the end by default, bounds in the wrong order put right,
 * no further back than metrics are kept, and a step that is not finer than the samples nor makes too many items.
 */
export function metricsRange(asked: AskedRange, now: Date, itemsAtMost = maxItems): MetricsRange {
  const endMs = (asked.end ?? now).getTime();
  const startMs = asked.start?.getTime() ?? endMs - defaultRangeMs;
  const oldestMs = now.getTime() - metricsKeptDays * 86_400_000;
  const fromMs = Math.max(oldestMs, Math.min(startMs, endMs));
  const toMs = Math.max(fromMs, startMs, endMs);
  // What lies ahead has no samples, so it makes no items.
  const coveredSeconds = Math.max(0, Math.min(toMs, now.getTime()) - fromMs) / 1000;
  const stepSeconds = stepFor(asked.stepSeconds ?? sampleSeconds, coveredSeconds, itemsAtMost);
  return { start: new Date(fromMs), end: new Date(toMs), stepSeconds };
}

/** Whole minutes where the step is that long, for which far less has to be read. */
function stepFor(askedSeconds: number, coveredSeconds: number, itemsAtMost: number): number {
  const needed = Math.max(askedSeconds, sampleSeconds, coveredSeconds / itemsAtMost);
  if (needed === askedSeconds) return askedSeconds;
  const unit = needed > 60 ? 60 : sampleSeconds;
  return Math.ceil(needed / unit) * unit;
}

/** RFC 3339 or another ISO 8601 form (UTC where it names no zone), Unix seconds or milliseconds. Null: none of them. */
export function parseTime(text: string): Date | null {
  const word = text.trim();
  if (/^\d{1,16}(?:\.\d{1,9})?$/.test(word)) {
    const number = Number(word);
    // 10^11 seconds are the year 5138, and as many milliseconds the year 1973.
    return valid(new Date(number < 1e11 ? number * 1000 : number));
  }
  const form = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)\s*(Z|[+\- ]\d\d:?\d\d)?)?$/i.exec(word);
  if (!form) return null;
  const [, date, time = '00:00', zone = 'Z'] = form;
  // A plus sign that was not encoded arrives as a space.
  const offset = zone.toUpperCase() === 'Z' ? 'Z' : zone.replace(' ', '+').replace(/(\d\d):?(\d\d)$/, '$1:$2');
  return valid(new Date(`${date}T${time.replace(',', '.')}${offset}`));
}

function valid(date: Date): Date | null {
  return Number.isNaN(date.getTime()) ? null : date;
}

const unitSeconds = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Seconds of a duration such as `5s`, `15m`, `1h`, `1d`; a bare number is seconds. Null: it is none. */
export function parseDurationSeconds(text: string): number | null {
  const form = /^(\d{1,6})([smhd]?)$/.exec(text.trim().toLowerCase());
  if (!form) return null;
  const seconds = Number(form[1]) * unitSeconds[(form[2] || 's') as keyof typeof unitSeconds];
  return seconds >= 1 && seconds <= metricsKeptDays * 86_400 ? seconds : null;
}

/** The shortest form that `parseDurationSeconds` reads. */
export function formatDuration(seconds: number): string {
  for (const unit of ['d', 'h', 'm'] as const) {
    if (seconds % unitSeconds[unit] === 0) return `${seconds / unitSeconds[unit]}${unit}`;
  }
  return `${seconds}s`;
}
