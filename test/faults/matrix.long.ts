import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { FaultyPlatform, partNames } from './faulty-platform.ts';
import { matrixTable, type Outcome, playRound, type Round, remains, wrongTotals } from './matrix.ts';

/** Every process × every transition × before and after the acknowledgement; before it, at several moments. */
const rounds: Round[] = partNames.flatMap((part) => [
  ...[5, 40, 200].map((delayMs) => ({ part, when: 'before' as const, delayMs })),
  { part, when: 'after', delayMs: 0 },
]);

let platform: FaultyPlatform;
const outcomes: Outcome[] = [];
const startedMs = Date.now();

beforeAll(async () => {
  platform = await FaultyPlatform.start();
}, 180_000);
afterAll(async () => {
  await platform?.stop();
  await platform?.removeData();
  const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
  process.stdout.write(`\n${matrixTable(outcomes)}\n${outcomes.length} transitions in ${minutes} min\n`);
}, 60_000);

test.each(rounds)(
  '$part killed $when the acknowledgement, $delayMs ms on',
  async (round) => {
    const played = await playRound(platform, round);
    outcomes.push(...played);
    expect(played.filter((each) => each.ended.startsWith('WRONG'))).toEqual([]);
    expect(await wrongTotals(platform)).toEqual([]);
    expect(await remains(platform)).toEqual([]);
  },
  240_000,
);
