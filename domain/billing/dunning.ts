/** Days after the first attempt on which a charge that failed is tried again. After the last one the account is past due. */
export const retryDays: readonly number[] = [1, 3, 5, 7];

const dayMs = 86_400_000;

/**
 * When the next attempt at a charge is due.
 * @param attempts how many have failed, the first one included
 * @returns null: none is; the account is past due
 */
export function nextChargeAt(firstAttemptMs: number, attempts: number): number | null {
  if (attempts === 0) return firstAttemptMs;
  const days = retryDays[attempts - 1];
  return days === undefined ? null : firstAttemptMs + days * dayMs;
}

/** When a charge that failed at a moment is tried again: the next of the days that is still to come. Null: none is. */
export function nextChargeAfter(firstAttemptMs: number, failedAtMs: number): number | null {
  const days = retryDays.map((_, index) => nextChargeAt(firstAttemptMs, index + 1)!);
  return days.find((dueMs) => dueMs > failedAtMs) ?? null;
}

/** Usage of a period that is recorded late, such as traffic, arrives within this time after the period's end. */
export const closingMs = 3_600_000;
/** How long a charge whose outcome is unknown is left before the processor is asked again. */
export const unknownOutcomeMs = 5 * 60_000;
