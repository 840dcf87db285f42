/** From `start` up to, but not including, `end`. */
export interface UsageWindow {
  start: Date;
  end: Date;
}

/** Unix milliseconds. Null: empty. */
interface Span {
  startMs: number;
  endMs: number;
}

/**
 * The parts of a window: those read from sums of whole days and whole hours (UTC), and those read from single events.
 */
interface WindowParts {
  days: Span[];
  hours: Span[];
  /** Parts of hours. */
  edges: Span[];
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Cuts a window into parts that cover it without overlap. */
export function splitWindow({ start, end }: UsageWindow): WindowParts {
  const window = { startMs: start.getTime(), endMs: end.getTime() };
  const hours = wholeUnits(window, hourMs);
  if (!hours) return { days: [], hours: [], edges: spans(window) };
  const days = wholeUnits(hours, dayMs);
  return {
    days: days ? [days] : [],
    hours: days
      ? [
          ...spans({ startMs: hours.startMs, endMs: days.startMs }),
          ...spans({ startMs: days.endMs, endMs: hours.endMs }),
        ]
      : [hours],
    edges: [
      ...spans({ startMs: window.startMs, endMs: hours.startMs }),
      ...spans({ startMs: hours.endMs, endMs: window.endMs }),
    ],
  };
}

/** The whole units within a span. Null: it has none. */
function wholeUnits({ startMs, endMs }: Span, unitMs: number): Span | null {
  const whole = { startMs: Math.ceil(startMs / unitMs) * unitMs, endMs: Math.floor(endMs / unitMs) * unitMs };
  return whole.endMs > whole.startMs ? whole : null;
}

const spans = (span: Span): Span[] => (span.endMs > span.startMs ? [span] : []);
