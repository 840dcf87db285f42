import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectBounded } from './floods/expect-bounded.ts';
import { FloodedGateway } from './floods/flooded-gateway.ts';

const limits = { maxWaitingBytes: 8 * 2 ** 20, maxWaitingBytesPerClient: 8 * 2 ** 20 };
/** `test/attacks/floods.long.ts` runs all floods. */
let flooded: FloodedGateway;

beforeAll(async () => {
  flooded = await FloodedGateway.start(limits);
});

afterAll(() => flooded.stop());

test.each([
  'chunks of single bytes to a sandbox that does not read',
  'chunks of single bytes from the sandbox, unread',
])('a flood of %s ends no process and keeps its memory within a bound', async (name) => {
  const result = await flooded.play(name, 1500);
  expect(result.bytesSent).toBeGreaterThan(10_000);
  expectBounded(result);
});
