import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';

/**
 * Rewrites a file of lines in place, because a sandbox has mounted the file itself. It makes only one write, so that a
 * reader sees either the old or the new text. The file never becomes shorter, because a reader would see the end of the
 * old text before the truncation. Spaces fill the last line of a shorter text.
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
