import { setTimeout as delay } from 'node:timers/promises';

let waits = 0;

/** How many waits have succeeded in this file of tests. */
export const successfulWaits = () => waits;

/**
 * Waits until something has become true, looking often.
 * @throws when it has not within the time limit
 */
export async function until(isTrue: () => boolean | Promise<boolean>, timeoutMs = 15_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`Not true within ${timeoutMs} ms: ${isTrue}`);
    await delay(25);
  }
  waits += 1;
}
