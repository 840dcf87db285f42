/** Seconds between a failed attempt and the next, in order. */
export const retrySpacingSeconds = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200] as const;

/** The longest wait that a receiver can get with `Retry-After`. */
const longestRetryAfterMs = 24 * 3_600_000;

/** After this many consecutive failures, the workflow also makes the first attempts. */
export const failuresUntilUnhealthy = 5;

/** An endpoint is disabled when all attempts have failed for this many days. */
export const failingDaysUntilDisabled = 5;

/**
 * Milliseconds to wait after a failed attempt: the spacing, 20 % more or less.
 * @param attempt from 1
 * @param random from 0 to 1
 */
export function retrySpacingMs(attempt: number, random: number): number {
  const seconds = retrySpacingSeconds[Math.min(attempt, retrySpacingSeconds.length) - 1]!;
  return Math.round(seconds * 1000 * (0.8 + 0.4 * random));
}

/** The longer of the spacing and the wait that the receiver asks for. */
export function withRetryAfter(spacingMs: number, retryAfterMs: number | null): number {
  return Math.max(spacingMs, Math.min(retryAfterMs ?? 0, longestRetryAfterMs));
}

/** Milliseconds of a `Retry-After` header: seconds, or an HTTP date. Null: the header is neither. */
export function readRetryAfter(header: string | undefined, nowMs: number): number | null {
  if (header === undefined) return null;
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000;
  const atMs = /^[A-Z][a-z]{2}, /.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
}
