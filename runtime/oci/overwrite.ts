import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';

/**
 * Writes a file of lines anew in place, because a sandbox has the file itself mounted. In one write, so that a reader
 * sees the old or the new text. The file never gets shorter, since a reader would see the end of the old text behind the
 * new one until it is cut off: spaces fill the last line of a text that is shorter.
 */
export function overwrite(file: string, text: string): void {
  const descriptor = openSync(file, 'r+');
  try {
    const missing = Math.max(0, fstatSync(descriptor).size - Buffer.byteLength(text, 'latin1'));
    writeSync(descriptor, `${text.slice(0, -1)}${' '.repeat(missing)}\n`, 0, 'latin1');
  } finally {
    closeSync(descriptor);
  }
}
