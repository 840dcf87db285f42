import { expect } from '@jest/globals';
import type { FloodResult } from './flooded-gateway.ts';

/** What waits (96 MiB at most), connections, and garbage that has not been collected. */
const maxGrowthBytes = 320 * 2 ** 20;

/** What every flood must end with. How fast another tenant was meanwhile is the bench's to say. */
export function expectBounded({ exits, rssBytes }: FloodResult): void {
  expect(exits).toBe(0);
  expect(rssBytes.most - rssBytes.before).toBeLessThan(maxGrowthBytes);
}
