const poison = 0xdb;
const isPoisoning = Boolean(process.env.AGENT_POISON_RELEASED);

/**
 * Call when the buffer of these bytes may be reused. With `AGENT_POISON_RELEASED` (tests) it is then overwritten, so
 * that a late use shows.
 */
export function release(bytes: Buffer): void {
  if (isPoisoning) bytes.fill(poison);
}
