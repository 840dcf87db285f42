const poison = 0xdb;
let isPoisoning = false;

/** For tests, in the whole process: overwrites released bytes, so that a later use of them is detected. */
export function poisonReleasedBytes(): void {
  isPoisoning = true;
}

/** Call this when the buffer of these bytes may be reused. */
export function release(bytes: Buffer): void {
  if (isPoisoning) bytes.fill(poison);
}
