import { partNames } from './faulty-platform.ts';
import { playMatrix } from './play-matrix.ts';

/**
 * Every process × every transition × before and after the acknowledgement. Kills before it happen at several moments.
 */
playMatrix(
  partNames.flatMap((part) => [
    ...[5, 40, 200].map((delayMs) => ({ part, when: 'before' as const, delayMs })),
    { part, when: 'after', delayMs: 0 },
  ]),
  240_000,
);
