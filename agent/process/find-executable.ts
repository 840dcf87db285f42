import fs from 'node:fs';
import path from 'node:path';

/** The first executable of that name in the folders of `searchPath`. A name with a slash is a path. */
export function findExecutable(name: string, searchPath: string): string | undefined {
  const folders = searchPath.split(':').map((folder) => folder || '.');
  const candidates = name.includes('/') ? [name] : folders.map((folder) => path.join(folder, name));
  return candidates.find((candidate) => {
    try {
      fs.accessSync(candidate, fs.constants.X_OK);
      return fs.statSync(candidate).isFile();
    } catch {
      return false; // Missing, or not executable for the agent: try the next folder.
    }
  });
}
