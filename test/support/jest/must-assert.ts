import { afterEach, beforeEach, expect } from '@jest/globals';
import { successfulWaits } from '../until.ts';

/** A test without an assertion or a wait cannot fail, so it is reported as failed. */
let waitsBefore: number;

beforeEach(() => {
  waitsBefore = successfulWaits();
});

afterEach(() => {
  if (expect.getState().assertionCalls === 0 && successfulWaits() === waitsBefore) {
    throw new Error('This test asserts nothing.');
  }
});
