import { test } from '@jest/globals';
import { expectUnharmed, playCampaignApart } from './hostile/campaign-process.ts';

/** A part of `test/attacks/hostile-replies.long.ts`. `GATEWAY_FUZZ_SEED` repeats a run. */
const seed = Number(process.env.GATEWAY_FUZZ_SEED ?? Date.now() % 2 ** 31);

test('1,000 hostile replies end no process, leave no client waiting, and leave the gateway idle with nothing open', async () => {
  const result = await playCampaignApart(1000, seed, 250);
  console.log(`seed ${seed}: ${JSON.stringify({ ...result, ends: undefined })}`);
  expectUnharmed(result);
}, 120_000);
