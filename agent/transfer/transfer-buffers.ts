import { release } from '../memory/released-bytes.ts';

/** Size of one piece of a large file on its way. */
export const transferBytes = 512 * 1024;

const kept = 4;
const free: Buffer[] = [];

/** Lends a buffer of `transferBytes`; made once and used again, since fresh memory costs more than the copy into it. */
export function takeTransferBuffer(): Buffer {
  return free.pop() ?? Buffer.allocUnsafeSlow(transferBytes);
}

export function giveTransferBuffer(buffer: Buffer): void {
  release(buffer);
  if (free.length < kept) free.push(buffer);
}
