import { readFileSync } from 'node:fs';

/**
 * Reads a file as latin1, or returns an empty text if it is missing: files of `/proc` and of a running platform come
 * and go.
 */
export function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}
