import { beforeEach, expect } from '@jest/globals';

/** A test that asserts nothing cannot fail, so it does. */
beforeEach(() => {
  expect.hasAssertions();
});
