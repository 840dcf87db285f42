/**
 * A failed charge is tried again this many days after the first attempt. After the last retry the account is past due.
 */
export const retryDays: readonly number[] = [1, 3, 5, 7];

const dayMs = 86_400_000;

/**
 * When the next attempt at a charge is due.
 * @param attempts the number of failed attempts, including the first
 * @returns null when no attempt is left: the account is past due
 */
export function nextChargeAt(firstAttemptMs: number, attempts: number): number | null {
  if (attempts === 0) return firstAttemptMs;
  const days = retryDays[attempts - 1];
  return days === undefined ? null : firstAttemptMs + days * dayMs;
}

/** When a charge that failed at `failedAtMs` is tried again: the next retry day after it. Null: no retry is left. */
export function nextChargeAfter(firstAttemptMs: number, failedAtMs: number): number | null {
  const days = retryDays.map((_, index) => nextChargeAt(firstAttemptMs, index + 1)!);
  return days.find((dueMs) => dueMs > failedAtMs) ?? null;
}

/** Usage that is recorded late, such as traffic, arrives within this time after the period's end. */
export const closingMs = 3_600_000;
/** How long the platform waits before it asks the processor again about a charge with an unknown outcome. */
export const unknownOutcomeMs = 5 * 60_000;
