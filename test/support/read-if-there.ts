import { readFileSync } from 'node:fs';

/** A file as latin1, or nothing where there is none: files of `/proc`, and those of a platform that runs, come and go. */
export function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}
