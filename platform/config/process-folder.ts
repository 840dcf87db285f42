import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/**
 * Makes a folder of this process, `<parent>/<prefix><pid>-…`. Removes those of processes that were killed, which could not
 * remove theirs.
 */
export function makeProcessFolder(parent: string, prefix: string): string {
  for (const name of readdirSync(parent)) {
    const [, pid] = name.startsWith(prefix) ? (/^(\d+)-/.exec(name.slice(prefix.length)) ?? []) : [];
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(path.join(parent, name), { recursive: true, force: true });
  }
  return mkdtempSync(path.join(parent, `${prefix}${process.pid}-`));
}
