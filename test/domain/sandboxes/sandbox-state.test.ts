import { describe, expect, test } from '@jest/globals';
import { canMove, sandboxStatuses, toLifecycleOutcome } from '../../../domain/sandboxes/state.ts';

/** For each status, the statuses that can follow. */
const table: Record<(typeof sandboxStatuses)[number], string[]> = {
  created: ['starting', 'terminating', 'failed'],
  starting: ['running', 'terminating', 'failed'],
  // `resuming` follows through the restart route, which the section does not have.
  running: ['pausing', 'paused', 'resuming', 'terminating', 'failed'],
  pausing: ['running', 'paused', 'terminating', 'failed'],
  paused: ['resuming', 'terminating', 'failed'],
  resuming: ['running', 'paused', 'terminating', 'failed'],
  terminating: ['terminated'],
  terminated: [],
  failed: ['terminating'],
};

describe('moves of a sandbox', () => {
  for (const from of sandboxStatuses) {
    test(`${from} moves to ${table[from].join(', ') || 'nothing'} and nowhere else`, () => {
      expect(sandboxStatuses.filter((to) => canMove(from, to)).sort()).toEqual([...table[from]].sort());
    });
  }
});

test.each([
  ['user_requested', false, 'completed'],
  ['user_requested', true, 'deleted'],
  ['timeout', false, 'timed_out'],
  ['timeout', true, 'timed_out'],
  ['persistence_expired', false, 'expired'],
] as const)('a life that ended by %s (deleted: %s) is %s', (reason, deleted, outcome) => {
  expect(toLifecycleOutcome(reason, deleted)).toBe(outcome);
});
