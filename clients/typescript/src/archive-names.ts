import path from 'node:path';
import { SandboxError } from './errors.ts';

/** Whether a text is the name of a file within its folder, on this machine too. */
export function isName(text: string): boolean {
  const separators = path.sep === '/' ? /[/\0]/ : /[/\\:\0]/;
  return !['', '.', '..'].includes(text) && !separators.test(text);
}

/**
 * The names on the way from the root of an archive to an entry. Empty for the root itself.
 * @throws {SandboxError} `bad_reply`: the path could lead out of the root
 */
export function namesOf(entry: string): string[] {
  const names = entry.split('/').filter((each) => each !== '' && each !== '.');
  if (!entry.startsWith('/') && names.every(isName)) return names;
  throw new SandboxError('bad_reply', `The sandbox sent ${JSON.stringify(entry)}, which is no path below the folder`);
}
