import { expect, test } from '@jest/globals';
import { expectUnharmed, playCampaignApart } from '../gateway/hostile/campaign-process.ts';

/** `GATEWAY_FUZZ_SEED` repeats a run, `GATEWAY_FUZZ_ROUNDS` shortens one. */
const seed = Number(process.env.GATEWAY_FUZZ_SEED ?? Date.now() % 2 ** 31);
const rounds = Number(process.env.GATEWAY_FUZZ_ROUNDS ?? 100_000);
const blockRounds = 500;

test('100,000 hostile replies end no process, leave no client waiting, slow no other tenant, and keep no memory', async () => {
  console.log(`seed ${seed}`);
  const result = await playCampaignApart(rounds, seed, blockRounds);
  console.log(`seed ${seed}: ${JSON.stringify(result)}`);
  expectUnharmed(result);
  expect(result.liveBytes.atEnd).toBeLessThanOrEqual(1.2 * result.liveBytes.afterTenth);
  expect(result.p99Ms.hostile).toBeLessThanOrEqual(2 * result.p99Ms.plain);
}, 7_200_000);
