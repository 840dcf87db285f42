import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectBounded } from './floods/expect-bounded.ts';
import { FloodedGateway } from './floods/flooded-gateway.ts';

const limits = { maxWaitingBytes: 8 * 2 ** 20, maxWaitingBytesPerClient: 8 * 2 ** 20 };
/** `test/attacks/floods.long.ts` has all floods. */
let flooded: FloodedGateway;

beforeAll(async () => {
  flooded = await FloodedGateway.start(limits);
}, 60_000);

afterAll(() => flooded.stop());

test('a flood of single bytes to a sandbox that does not read ends no process and keeps its memory within a bound', async () => {
  const result = await flooded.play('chunks of single bytes to a sandbox that does not read', 1500);
  expect(result.bytesSent).toBeGreaterThan(2 ** 20);
  expectBounded(result);
}, 60_000);
