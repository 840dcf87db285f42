import { playMatrix } from './play-matrix.ts';

/** A sample of the matrix. `npm run test:faults` plays the whole matrix. */
playMatrix(
  [
    { part: 'host', when: 'before', delayMs: 40 },
    { part: 'worker', when: 'after', delayMs: 0 },
  ],
  180_000,
);
