/** Pseudo-random numbers that are the same in every run (mulberry32). */
export function seededRandom(seed: number) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    /** From 0 to below `limit`, which may be larger than 32 bits. */
    integer: (limit: number) => Math.floor((next() + next() / 2 ** 32) * limit) % limit,
  };
}
