import { afterEach, beforeEach, expect } from '@jest/globals';
import { successfulWaits } from './until.ts';

/** A test that neither asserts nor waits for anything cannot fail, so it does. */
let waitsBefore: number;

beforeEach(() => {
  waitsBefore = successfulWaits();
});

afterEach(() => {
  if (expect.getState().assertionCalls === 0 && successfulWaits() === waitsBefore) {
    throw new Error('This test asserts nothing.');
  }
});
