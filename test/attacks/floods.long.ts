import { afterEach, beforeEach, test } from '@jest/globals';
import { expectBounded } from '../gateway/floods/expect-bounded.ts';
import { FloodedGateway } from '../gateway/floods/flooded-gateway.ts';
import { floodKinds } from '../gateway/floods/flooding-clients.ts';

const durationMs = 1000 * Number(process.env.FLOOD_SECONDS ?? 10);
let flooded: FloodedGateway;

beforeEach(async () => {
  flooded = await FloodedGateway.start();
}, 60_000);

afterEach(() => flooded.stop());

// `npm run bench -- floods` has the figures. `FLOOD_SECONDS` makes the floods shorter.
test.each(floodKinds.map(({ name }) => name))(
  'a flood of %s ends no process of the gateway and keeps its memory within a bound',
  async (name) => {
    expectBounded(await flooded.play(name, durationMs));
  },
  180_000,
);
