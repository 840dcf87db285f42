import { release } from '../memory/released-bytes.ts';

/** The size of one piece of a large file during a transfer. */
export const transferBytes = 512 * 1024;

const kept = 4;
const free: Buffer[] = [];

/** Lends a buffer of `transferBytes`. Buffers are reused, because fresh memory costs more than copying into it. */
export function takeTransferBuffer(): Buffer {
  return free.pop() ?? Buffer.allocUnsafeSlow(transferBytes);
}

export function giveTransferBuffer(buffer: Buffer): void {
  release(buffer);
  if (free.length < kept) free.push(buffer);
}
