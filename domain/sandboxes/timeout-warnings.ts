/** Owners are notified this many seconds before a timeout, if the timeout is long enough. */
const warningSeconds = [300, 60, 15];

/** The warnings of a timeout of this length, longest first: those that fall into its second half. */
export function timeoutWarnings(timeoutSeconds: number): number[] {
  return warningSeconds.filter((before) => before <= timeoutSeconds / 2);
}

/**
 * Milliseconds from `nowMs` to the next warning, and the seconds from that warning to the end. Null: no warning is
 * left.
 */
export function nextWarning(
  deadlineMs: number,
  timeoutSeconds: number,
  nowMs: number,
): { inMs: number; beforeSeconds: number } | null {
  for (const beforeSeconds of timeoutWarnings(timeoutSeconds)) {
    const inMs = deadlineMs - beforeSeconds * 1000 - nowMs;
    if (inMs > 0) return { inMs, beforeSeconds };
  }
  return null;
}
