import { expect, test } from '@jest/globals';
import { expectBounded } from './floods/expect-bounded.ts';
import { playFlood } from './floods/flooded-gateway.ts';

const limits = { maxWaitingBytes: 8 * 2 ** 20, maxWaitingBytesPerClient: 8 * 2 ** 20 };

/** A share of `test/attacks/floods.long.ts`. */
test.each([
  'uploads of single bytes to a sandbox that does not read',
  'chunks of single bytes to a sandbox that does not read',
])(
  'a flood of %s ends no process and keeps its memory within a bound',
  async (name) => {
    const result = await playFlood(name, 1500, limits);
    expect(result.bytesSent).toBeGreaterThan(2 ** 20);
    expectBounded(result);
  },
  120_000,
);
