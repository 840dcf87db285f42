import path from 'node:path';
import { statPath } from '../filesystem/path.ts';
import { systemError } from '../native/libc.ts';

const anyMayExecute = 0o111;

/**
 * The file of a command: the command itself if it contains a slash, otherwise the first program of that name in the
 * search path of the new process.
 * @throws ENOENT, or EACCES when the files of that name may not be executed
 */
export async function findProgram(command: string, searchPath: string, cwd: string): Promise<string> {
  if (command.includes('/')) return path.resolve(cwd, command);
  let denied = false;
  for (const folder of searchPath.split(':')) {
    const candidate = path.resolve(cwd, folder, command);
    const stat = await statPath(candidate).catch(() => undefined);
    if (!stat?.isFile()) continue;
    if (stat.mode & anyMayExecute) return candidate;
    denied = true;
  }
  throw systemError('execve', denied ? 13 : 2, command);
}
