import fs from 'node:fs';
import path from 'node:path';
import { type ModuleItem, parse } from '@swc/core';
import { closedFolders, type ImportRule, importRules, type SubjectRules, subjectRules } from './import-rules.ts';

/** One import of a file. */
interface Import {
  /**
   * The path from the root for a file of the project, otherwise the package's name, or `node:fs` for a module of Node.
   */
  target: string;
  isOurs: boolean;
  typeOnly: boolean;
}

/**
 * Checks every import of every file below a folder against the rules, and that imports have no cycles, not even of
 * types.
 * @param root the folder whose sub-folders are those of the rules
 * @param closed folders that only the listed files and folders may import
 * @param subjects which subjects of a layer may import which others
 * @returns a sentence for each offence; empty when there is none
 */
export async function checkImports(
  root: string,
  rules: Readonly<Record<string, ImportRule>> = importRules,
  closed: Readonly<Record<string, readonly string[]>> = closedFolders,
  subjects: Readonly<Record<string, SubjectRules>> = subjectRules,
): Promise<string[]> {
  const offences: string[] = [];
  const graph = new Map<string, string[]>();
  for (const file of sourceFiles(root)) {
    const folder = deepest(file, Object.keys(rules));
    if (folder === undefined) {
      offences.push(`${file}: no rule says what ${path.dirname(file)}/ may import`);
      continue;
    }
    const imports = await readImports(root, file);
    graph.set(
      file,
      imports.filter(({ isOurs }) => isOurs).map(({ target }) => target),
    );
    for (const found of imports) {
      if (isAllowed(found, folder, rules[folder]!) && isOpenTo(file, found, closed) && mayUse(file, found, subjects))
        continue;
      offences.push(`${file}: may not import ${found.target}`);
    }
  }
  return [...offences, ...circles(graph)];
}

function isAllowed({ target, isOurs, typeOnly }: Import, folder: string, rule: ImportRule): boolean {
  if (!isOurs) {
    const isNodes = target.startsWith('node:') && rule.packages?.includes('node:') === true;
    return !rule.packages || isNodes || rule.packages.includes(target);
  }
  const lies = (place: string) => liesIn(target, place);
  return lies(folder) || rule.from.some(lies) || (typeOnly && (rule.typesFrom ?? []).some(lies));
}

function isOpenTo(file: string, { target }: Import, closed: Readonly<Record<string, readonly string[]>>): boolean {
  return Object.entries(closed).every(
    ([folder, openTo]) =>
      !liesIn(target, folder) || liesIn(file, folder) || openTo.some((place) => liesIn(file, place)),
  );
}

/** Whether the subject of a file may import the subject of its target. */
function mayUse(file: string, { target }: Import, rules: Readonly<Record<string, SubjectRules>>): boolean {
  const layer = Object.keys(rules).find((each) => liesIn(file, each) && liesIn(target, each));
  if (layer === undefined) return true;
  const { shared, subjects } = rules[layer]!;
  const [from, to] = [file, target].map((each) => each.slice(layer.length + 1));
  const [fromSubject, toSubject] = [from!, to!].map((each) => (each.includes('/') ? each.split('/')[0]! : '.'));
  if (fromSubject === toSubject || shared.includes(toSubject!)) return true;
  if (shared.includes(fromSubject!) && fromSubject !== '.') return false;
  return fromSubject === '.' || (subjects[fromSubject!] ?? []).some((place) => liesIn(to!, place));
}

const deepest = (file: string, folders: readonly string[]) =>
  folders.filter((folder) => liesIn(file, folder)).sort((a, b) => b.length - a.length)[0];

const liesIn = (file: string, place: string) => file === place || file.startsWith(`${place}/`);

/** Source files below the folders at the root, without built files, installed files and data of runs. */
function sourceFiles(root: string): string[] {
  return fs
    .readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules')
    .flatMap(({ name }) =>
      fs.readdirSync(path.join(root, name), { recursive: true, encoding: 'utf8' }).map((file) => `${name}/${file}`),
    )
    .filter((file) => /\.(tsx?|mjs|cjs|js)$/.test(file) && !/(^|\/)(dist|gen|node_modules|fixtures)\//.test(file));
}

async function readImports(root: string, file: string): Promise<Import[]> {
  const source = fs.readFileSync(path.join(root, file), 'utf8');
  const program = await parse(source, { syntax: 'typescript', tsx: file.endsWith('x'), target: 'es2024' });
  const written = program.body.flatMap(staticImport);
  for (const [, specifier] of source.matchAll(/\bimport\(\s*'([^']+)'/g)) {
    written.push({ specifier: specifier!, typeOnly: false });
  }
  return written.map(({ specifier, typeOnly }) => {
    if (specifier.startsWith('.')) {
      return { target: path.posix.join(path.posix.dirname(file), specifier), isOurs: true, typeOnly };
    }
    const depth = specifier.startsWith('@') ? 2 : 1;
    return { target: specifier.split('/').slice(0, depth).join('/'), isOurs: false, typeOnly };
  });
}

function staticImport(item: ModuleItem): { specifier: string; typeOnly: boolean }[] {
  switch (item.type) {
    case 'ImportDeclaration': {
      const names = item.specifiers;
      const onlyTypes = names.length > 0 && names.every((name) => name.type === 'ImportSpecifier' && name.isTypeOnly);
      return [{ specifier: item.source.value, typeOnly: item.typeOnly || onlyTypes }];
    }
    case 'ExportAllDeclaration':
      return [{ specifier: item.source.value, typeOnly: false }];
    case 'ExportNamedDeclaration':
      return item.source ? [{ specifier: item.source.value, typeOnly: item.typeOnly }] : [];
    default:
      return [];
  }
}

/** Each cycle of imports once, listed from its first file by name. */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (file: string): void => {
    const at = trail.indexOf(file);
    if (at !== -1) {
      const circle = trail.slice(at);
      const first = circle.indexOf([...circle].sort()[0]!);
      found.add([...circle.slice(first), ...circle.slice(0, first + 1)].join(' → '));
      return;
    }
    if (done.has(file)) return;
    trail.push(file);
    for (const next of graph.get(file) ?? []) visit(next);
    trail.pop();
    done.add(file);
  };
  for (const file of graph.keys()) visit(file);
  return [...found].map((circle) => `circle: ${circle}`);
}
