const poison = 0xdb;
const isPoisoning = Boolean(process.env.AGENT_POISON_RELEASED);

/**
 * Call this when the buffer of these bytes may be reused. With `AGENT_POISON_RELEASED` (in tests) the buffer is then
 * overwritten, so that a later use is detected.
 */
export function release(bytes: Buffer): void {
  if (isPoisoning) bytes.fill(poison);
}
