import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/**
 * Makes a folder of this process, `<parent>/<prefix><pid>-…`. Removes those of this user's processes that were killed,
 * which could not remove theirs. Another user may have such folders in the same place.
 */
export function makeProcessFolder(parent: string, prefix: string): string {
  for (const name of readdirSync(parent)) {
    const [, pid] = name.startsWith(prefix) ? (/^(\d+)-/.exec(name.slice(prefix.length)) ?? []) : [];
    if (!pid || existsSync(`/proc/${pid}`)) continue;
    const folder = path.join(parent, name);
    // Another process may remove it at the same time.
    const owner = lstatSync(folder, { throwIfNoEntry: false })?.uid;
    if (owner === process.geteuid!()) rmSync(folder, { recursive: true, force: true });
  }
  return mkdtempSync(path.join(parent, `${prefix}${process.pid}-`));
}
