import { setTimeout as delay } from 'node:timers/promises';

let waits = 0;

/** The number of successful waits in this test file. */
export const successfulWaits = () => waits;

/**
 * Polls until a condition is true.
 * @throws when it is not true within the time limit, and the errors of `isTrue`
 */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  timeoutMs = 90_000,
  intervalMs = 25,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`Not true within ${timeoutMs} ms: ${isTrue}`);
    await delay(intervalMs);
  }
  waits += 1;
}

const stillMs = 300;

/** Waits until a count no longer grows. */
export async function untilStill(count: () => number): Promise<void> {
  let before = -1;
  await until(async () => {
    const isStill = count() === before;
    before = count();
    await delay(stillMs);
    return isStill;
  });
}
