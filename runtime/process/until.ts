import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats a question until the answer is true.
 * @returns false when the time limit is reached before
 */
export async function until(
  question: () => boolean | Promise<boolean>,
  options: { timeoutSeconds: number; everyMs: number; signal?: AbortSignal },
): Promise<boolean> {
  const end = performance.now() + options.timeoutSeconds * 1000;
  while (!(await question())) {
    if (performance.now() > end) return false;
    await sleep(options.everyMs, undefined, { signal: options.signal });
  }
  return true;
}
