const poison = 0xdb;
let isPoisoning = false;

/** For tests, in the whole process: overwrites bytes when they are released, so that a late use of them shows. */
export function poisonReleasedBytes(): void {
  isPoisoning = true;
}

/** Call when the buffer of these bytes may be reused. */
export function release(bytes: Buffer): void {
  if (isPoisoning) bytes.fill(poison);
}
