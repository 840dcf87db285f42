import { describe, expect, test } from '@jest/globals';
import { remainingSeconds, stoppedClock, timeoutAt, totals, turn } from '../../../domain/sandboxes/clock.ts';

const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1000);

describe('totals of a life', () => {
  test('finished phases and the current one are counted, separately for each kind', () => {
    let clock = turn(stoppedClock, 'running', at(0));
    clock = turn(clock, 'paused', at(10));
    clock = turn(clock, 'running', at(25));
    expect(totals(clock, at(30))).toEqual({
      totalRunningSeconds: 15,
      totalPausedSeconds: 15,
      actualTotalRunningSeconds: 10,
      actualTotalPausedSeconds: 15,
    });
  });

  test('many phases shorter than a second lose nothing', () => {
    let clock = stoppedClock;
    for (let i = 0; i < 10; i++) {
      clock = turn(clock, 'running', at(i));
      clock = turn(clock, 'paused', at(i + 0.6));
    }
    expect(totals(turn(clock, null, at(10)), at(99))).toMatchObject({ totalRunningSeconds: 6, totalPausedSeconds: 4 });
  });

  test('a clock that jumps back causes no negative phase', () => {
    const clock = turn(turn(stoppedClock, 'running', at(100)), null, at(50));
    expect(clock).toEqual({ runningMs: 0, pausedMs: 0, phase: null });
  });

  test('the totals of a stopped clock do not change', () => {
    const clock = turn(turn(stoppedClock, 'running', at(0)), null, at(7));
    expect(totals(clock, at(1000)).totalRunningSeconds).toBe(7);
  });
});

describe('timeouts', () => {
  test('end as long after their start as they are long, while running or pausing', () => {
    expect(timeoutAt('running', at(0), 300)).toEqual(at(300));
    expect(timeoutAt('pausing', at(0), 300)).toEqual(at(300));
    expect(timeoutAt('paused', at(0), 300)).toBeNull();
    expect(timeoutAt('running', null, 300)).toBeNull();
  });

  test('have no negative rest', () => {
    expect(remainingSeconds(at(300), at(299.5))).toBe(0);
    expect(remainingSeconds(at(300), at(400))).toBe(0);
    expect(remainingSeconds(at(300), at(0))).toBe(300);
    expect(remainingSeconds(null, at(0))).toBeNull();
  });
});
