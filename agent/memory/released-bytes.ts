const poison = 0xdb;
const isPoisoning = Boolean(process.env.AGENT_POISON_RELEASED);

/**
 * Call when the buffer of these bytes may be used again. With `AGENT_POISON_RELEASED` (tests) they are overwritten then,
 * so that a late use of them shows.
 */
export function release(bytes: Buffer): void {
  if (isPoisoning) bytes.fill(poison);
}
