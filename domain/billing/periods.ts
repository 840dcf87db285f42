/** A period of a subscription: from `startMs` until before `endMs`, in Unix milliseconds. */
export interface Period {
  /** 0 is the period that begins at the anchor. */
  index: number;
  startMs: number;
  endMs: number;
}

export type BillingInterval = 'month' | 'year';

const monthsPerInterval: Readonly<Record<BillingInterval, number>> = { month: 1, year: 12 };

/**
 * The period that contains `atMs`. Period n begins n months after the anchor, at the anchor's time of day in UTC. In a
 * month that lacks the anchor's day, it begins on the last day. Each start is counted from the anchor, so a short month
 * does not shift later starts: 31 January, 28 February, 31 March.
 */
export function periodAt(anchorMs: number, interval: BillingInterval, atMs: number): Period {
  const anchor = new Date(anchorMs);
  const at = new Date(atMs);
  const months = (at.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + at.getUTCMonth() - anchor.getUTCMonth();
  let index = Math.floor(months / monthsPerInterval[interval]);
  // A period of this month may begin only after `atMs`. Then `atMs` is in the period before.
  if (computeStart(anchorMs, interval, index) > atMs) index -= 1;
  return period(anchorMs, interval, index);
}

/** The period with this number. */
export function period(anchorMs: number, interval: BillingInterval, index: number): Period {
  return {
    index,
    startMs: computeStart(anchorMs, interval, index),
    endMs: computeStart(anchorMs, interval, index + 1),
  };
}

function computeStart(anchorMs: number, interval: BillingInterval, index: number): number {
  const anchor = new Date(anchorMs);
  const months = anchor.getUTCMonth() + index * monthsPerInterval[interval];
  const year = anchor.getUTCFullYear() + Math.floor(months / 12);
  const month = ((months % 12) + 12) % 12;
  const day = Math.min(anchor.getUTCDate(), countDays(year, month));
  const timeOfDay = anchorMs - Date.UTC(anchor.getUTCFullYear(), anchor.getUTCMonth(), anchor.getUTCDate());
  return Date.UTC(year, month, day) + timeOfDay;
}

/** The last day of this month is day 0 of the next month. */
function countDays(year: number, month: number): number {
  return new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
}
