import { readFileSync } from 'node:fs';
import path from 'node:path';

const readAgainMs = 1000;

/**
 * The id of the host on this machine: the id of the settings, or the id that the host worker stores in the data folder,
 * possibly after this process has started. Null: no host worker uses this folder.
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
