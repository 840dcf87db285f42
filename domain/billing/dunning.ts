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
