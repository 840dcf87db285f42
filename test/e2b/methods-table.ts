import fs from 'node:fs';
import path from 'node:path';

/** What the platform does with a method: `local` methods ask no platform. */
export type Support = 'yes' | 'refused' | 'local';

/** The names in one row of the tables of docs/e2b.md. */
export interface MethodRow {
  javaScript: string[];
  python: string[];
  commands: string[];
  support: Support;
}

const readPage = () => fs.readFileSync(path.resolve(import.meta.dirname, '../../docs/e2b.md'), 'utf8');

/** The rows of the tables of docs/e2b.md. */
export function readMethodRows(): MethodRow[] {
  const rows = [...readPage().matchAll(/^\| (.*) \| (yes|refused|local) \| .*\|$/gm)];
  return rows.map(([, names, support]) => {
    const [first, second] = names!.split('|').map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
    const [javaScript, commands] = second === undefined ? [[], first!] : [first!, []];
    return { javaScript, python: second ?? [], commands, support: support as Support };
  });
}

/** The names of one column with this support. */
export function namesOf(column: 'javaScript' | 'python' | 'commands', ...support: Support[]): string[] {
  const rows = readMethodRows().filter((row) => support.includes(row.support));
  return rows.flatMap((row) => row[column]).sort();
}

/** The versions of packages that the page names. */
export function versionsOfPage(): string[] {
  const tried = /^A method that is not in this list[\s\S]*?\n\n/m.exec(readPage())![0];
  return [...tried.matchAll(/\d+\.\d+\.\d+/g)].map(([version]) => version).sort();
}
