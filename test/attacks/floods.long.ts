import { test } from '@jest/globals';
import { expectBounded } from '../gateway/floods/expect-bounded.ts';
import { playFlood } from '../gateway/floods/flooded-gateway.ts';
import { FLOODS } from '../gateway/floods/flooding-clients.ts';

// `npm run bench -- floods` has the figures.
test.each(FLOODS.map(({ name }) => name))(
  'a flood of %s ends no process of the gateway and keeps its memory within a bound',
  async (name) => {
    expectBounded(await playFlood(name, 10_000));
  },
  180_000,
);
