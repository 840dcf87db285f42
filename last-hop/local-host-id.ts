import { readFileSync } from 'node:fs';
import path from 'node:path';

const readAgainMs = 1000;

/**
 * Reads the id of the host on this machine: the one that the settings name, or the one that the host worker keeps in the
 * data folder, which it may make after this process has started. Null: no host worker uses this folder.
 */
export function localHostId(settings: {
  PLATFORM_HOST_ID?: string | undefined;
  PLATFORM_DATA_DIR: string;
}): () => string | null {
  let known = settings.PLATFORM_HOST_ID ?? null;
  let nextReadMs = 0;
  return () => {
    if (known !== null || performance.now() < nextReadMs) return known;
    nextReadMs = performance.now() + readAgainMs;
    try {
      known = readFileSync(path.join(settings.PLATFORM_DATA_DIR, 'host-id'), 'utf8').trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    return known;
  };
}
