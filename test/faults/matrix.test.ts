import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { FaultyPlatform } from './faulty-platform.ts';
import { matrixTable, type Outcome, playRound, type Round, remains, wrongTotals } from './matrix.ts';

/** A sample of the matrix that `npm run test:faults` plays as a whole. */
const rounds: Round[] = [
  { part: 'host', when: 'before', delayMs: 40 },
  { part: 'worker', when: 'after', delayMs: 0 },
];

let platform: FaultyPlatform;
const outcomes: Outcome[] = [];

beforeAll(async () => {
  platform = await FaultyPlatform.start();
}, 180_000);
afterAll(async () => {
  await platform?.stop();
  await platform?.removeData();
  process.stdout.write(`\n${matrixTable(outcomes)}\n`);
}, 60_000);

test.each(rounds)(
  '$part killed $when the acknowledgement: nothing is lost, nothing leaks',
  async (round) => {
    const played = await playRound(platform, round);
    outcomes.push(...played);
    expect(played.filter((each) => each.ended.startsWith('WRONG'))).toEqual([]);
    expect(await wrongTotals(platform)).toEqual([]);
    expect(await remains(platform)).toEqual([]);
  },
  180_000,
);
