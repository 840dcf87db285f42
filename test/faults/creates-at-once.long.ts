import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { summarize } from '../../bench/statistics.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { withPlatform } from './with-platform.ts';

/** 60 clients that create at once, on a host that starts each of them cold. */
const clients = 60;

let platform: FaultyPlatform;
withPlatform(
  (started) => {
    platform = started;
  },
  { PLATFORM_WARM_POOL_SIZE: '0' },
);

test('creates that would wait long are refused early, leave nothing, and succeed later', async () => {
  const replies: { status: number; ms: number }[] = [];
  async function create(): Promise<string> {
    for (;;) {
      const beganMs = performance.now();
      const response = await fetch(`${platform.settings.PLATFORM_URL}/v1/sandboxes`, {
        method: 'POST',
        headers: { 'X-API-Key': platform.apiKey, 'Content-Type': 'application/json' },
        body: JSON.stringify({ template: 'base', timeout: 3600 }),
      });
      const body = (await response.json()) as { code?: string; data?: { sandbox_id: string } };
      replies.push({ status: response.status, ms: performance.now() - beganMs });
      if (response.status === 201) return body.data!.sandbox_id;
      expect([response.status, body.code]).toEqual([429, 'start_queue_full']);
      await delay(Number(response.headers.get('retry-after')) * 1000);
    }
  }
  // The host knows how long starts take from the ones before.
  for (let round = 1; round <= 2; round += 1) {
    replies.length = 0;
    const beganMs = performance.now();
    const ids = await Promise.all(Array.from({ length: clients }, create));
    const totalMs = performance.now() - beganMs;
    const accepted = summarize(replies.filter(({ status }) => status === 201).map(({ ms }) => ms));
    const refused = summarize(replies.filter(({ status }) => status === 429).map(({ ms }) => ms));
    console.log(
      `round ${round}: ${clients} creates in ${Math.round(totalMs)} ms; accepted after ${Math.round(accepted.p50)} ms ` +
        `(most ${Math.round(accepted.max)}); ${replies.length - clients} refused after ${Math.round(refused.p50)} ms`,
    );
    const [{ n }] = (await platform.rows<{ n: string }>(
      "select count(*) as n from sandboxes where status <> 'terminated'",
    )) as [{ n: string }];
    expect(Number(n)).toBe(clients);
    for (const id of ids) await platform.api.deleteSandbox(id as never);
  }
}, 600_000);
