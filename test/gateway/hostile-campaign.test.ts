import { expect, test } from '@jest/globals';
import { playCampaignApart } from './hostile/campaign-process.ts';

/** A share of `test/attacks/hostile-replies.long.ts`. `GATEWAY_FUZZ_SEED` repeats a run. */
const seed = Number(process.env.GATEWAY_FUZZ_SEED ?? Date.now() % 2 ** 31);

test('1,000 hostile replies end no process and leave no client waiting', async () => {
  const result = await playCampaignApart(1000, seed, 250);
  console.log(`seed ${seed}: ${JSON.stringify({ ...result, ends: undefined })}`);
  expect(result).toMatchObject({ exits: 0, hangs: [], faults: [] });
}, 120_000);
