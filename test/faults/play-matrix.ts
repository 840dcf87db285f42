import { afterAll, expect, test } from '@jest/globals';
import type { FaultyPlatform } from './faulty-platform.ts';
import { matrixTable, type Outcome, playRound, type Round, remains, wrongTotals } from './matrix.ts';
import { withPlatform } from './with-platform.ts';

/**
 * Plays rounds on one platform, each as a test: nothing may be lost, nothing may leak. Prints the table and the
 * duration.
 * @param timeoutMs of one round
 */
export function playMatrix(rounds: readonly Round[], timeoutMs: number): void {
  let platform: FaultyPlatform;
  const outcomes: Outcome[] = [];
  const startedMs = Date.now();

  withPlatform((started) => {
    platform = started;
  });
  afterAll(() => {
    const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
    process.stdout.write(`\n${matrixTable(outcomes)}\n${outcomes.length} transitions in ${minutes} min\n`);
  });

  test.each(rounds)(
    '$part killed $when the acknowledgement, $delayMs ms on: nothing is lost, nothing leaks',
    async (round) => {
      const played = await playRound(platform, round);
      outcomes.push(...played);
      expect(played.filter((each) => each.ended.startsWith('WRONG'))).toEqual([]);
      expect(await wrongTotals(platform)).toEqual([]);
      expect(await remains(platform)).toEqual([]);
    },
    timeoutMs,
  );
}
