import { releasedBytes } from '../../gateway/upstream/released-bytes.ts';

/** Overwrites released bytes in the whole process, so that a later use of them is detected. */
export function poisonReleasedBytes(): void {
  releasedBytes.subscribe((bytes) => (bytes as Buffer).fill(0xdb));
}
