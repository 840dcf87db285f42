import fs from 'node:fs';
import path from 'node:path';
import { systemError } from '../native/libc.ts';

/**
 * The file that a command names: itself when it holds a slash, else the first program of that name in the search path
 * of the process to be started.
 * @throws ENOENT, or EACCES when all there is may not be executed
 */
export function findProgram(command: string, searchPath: string, cwd: string): string {
  if (command.includes('/')) return path.resolve(cwd, command);
  let denied = false;
  for (const folder of searchPath.split(':')) {
    const candidate = path.resolve(cwd, folder, command);
    const stat = fs.statSync(candidate, { throwIfNoEntry: false });
    if (!stat?.isFile()) continue;
    try {
      fs.accessSync(candidate, fs.constants.X_OK);
      return candidate;
    } catch {
      denied = true;
    }
  }
  throw systemError('execve', denied ? 13 : 2, command);
}
