import { expect } from '@jest/globals';
import type { FloodResult } from './flooded-gateway.ts';

/** Waiting data (96 MiB at most), connections, and garbage that has not been collected. */
const maxGrowthBytes = 320 * 2 ** 20;

/** The requirements for every flood. The bench measures how fast another tenant was meanwhile. */
export function expectBounded({ exits, rssBytes }: FloodResult): void {
  expect(exits).toBe(0);
  expect(rssBytes.most - rssBytes.before).toBeLessThan(maxGrowthBytes);
}
