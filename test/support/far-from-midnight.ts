import { setTimeout as delay } from 'node:timers/promises';

const dayMs = 86_400_000;

/** For tests of whole days (UTC): returns when at least a minute of this day remains. */
export async function farFromMidnight(): Promise<void> {
  const leftMs = () => dayMs - (Date.now() % dayMs);
  while (leftMs() < 60_000) await delay(leftMs() + 1);
}
