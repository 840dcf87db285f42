import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { parseSync } from '@swc/core';
import { type PythonEnvironment, packageFile, pythonWith } from './published-packages.ts';

const run = promisify(execFile);

/** How docs/e2b.md calls an object of a class. Classes with and without asyncio have the same name there. */
const receivers: Readonly<Record<string, string>> = {
  Sandbox: 'sandbox',
  SandboxApi: 'sandbox',
  Filesystem: 'sandbox.files',
  Commands: 'sandbox.commands',
  Pty: 'sandbox.pty',
  Git: 'sandbox.git',
  CommandHandle: 'handle',
  CommandInputHandle: 'input',
  WatchHandle: 'watcher',
  SandboxPaginator: 'sandboxes',
  SnapshotPaginator: 'snapshots',
  SecretPaginator: 'secrets',
  Template: 'template',
  TemplateBase: 'template',
  TemplateBuilder: 'template',
  TemplateFinal: 'template',
  ReadyCmd: 'readyCommand',
  LogEntry: 'logEntry',
  Volume: 'volume',
  Secret: 'secret',
  Result: 'result',
  Execution: 'execution',
  ExecutionError: 'error',
  OutputMessage: 'message',
  Logs: 'logs',
  Context: 'context',
};

/** Classes that the packages export for their own use, and the generated client of the API. */
const internal = new Set([
  ...['ConnectionConfig', 'VolumeConnectionConfig', 'ApiClient', 'AuthenticatedClient', 'Paginator'],
  ...['EntryInfo', 'WriteInfo'],
]);

function nameOf(className: string, method: string, isStatic: boolean): string {
  const known = className.replace(/^Async/, '');
  const receiver = receivers[known];
  if (!receiver) throw new Error(`docs/e2b.md has no name for the class ${className}, which has the method ${method}`);
  const ofClass = { TemplateBase: 'Template', SandboxApi: 'Sandbox' }[known] ?? known;
  return `${isStatic ? ofClass : receiver}.${method}`;
}

interface Declaration {
  type: string;
  declaration?: Declaration;
  identifier?: { value: string };
  body?: { type: string; kind?: string; isStatic?: boolean; accessibility?: string; key?: { value: string } }[];
}

/** The public methods and functions that an npm package of E2B declares, by their names in docs/e2b.md. */
export function javaScriptMethods(packageName: string): Set<string> {
  const text = fs.readFileSync(packageFile(packageName, 'dist/index.d.ts'), 'utf8');
  const exported = /^export \{ (.*) \};$/m.exec(text)![1]!.split(', ');
  const names = new Set<string>();
  for (const item of parseSync(text, { syntax: 'typescript' }).body as unknown as Declaration[]) {
    const { type, identifier, body } = item.declaration ?? item;
    if (type === 'FunctionDeclaration' && exported.includes(identifier!.value)) names.add(identifier!.value);
    if (type !== 'ClassDeclaration' || internal.has(identifier!.value)) continue;
    for (const { type: kindOfMember, kind, isStatic, accessibility, key } of body as NonNullable<typeof body>) {
      if (kindOfMember !== 'ClassMethod' || kind !== 'method' || (accessibility ?? 'public') !== 'public') continue;
      names.add(nameOf(identifier!.value, key!.value, isStatic === true));
    }
  }
  return names;
}

/** The public methods and functions of both Python packages, by their names in docs/e2b.md. */
export async function pythonMethods(environment: PythonEnvironment): Promise<Set<string>> {
  const python = await pythonWith(environment);
  const { stdout } = await run(python, [path.join(import.meta.dirname, 'programs/surface.py')]);
  const classes = Object.entries<string[]>(JSON.parse(stdout));
  return new Set(pythonNames(classes.flatMap(([name, methods]) => methods.map((method) => `${name} ${method}`))));
}

/**
 * The names of Python's methods in docs/e2b.md.
 * @param methods the class and the name of each, as `programs/surface.py` has them; functions have no class
 */
export function pythonNames(methods: readonly string[]): string[] {
  return methods.flatMap((method) => {
    const [, className, isStatic, name] = /^(\w*) (static )?(\w+)$/.exec(method)!;
    if (internal.has(className!)) return [];
    if (className === '') return [name!];
    return [nameOf(className!, name!, isStatic !== undefined).replace('readyCommand.', 'ready_command.')];
  });
}

/** The commands of a version of the command line, from its own help. */
export async function commandLineCommands(packageName: string): Promise<Set<string>> {
  const names = new Set<string>();
  const visit = async (words: string[]): Promise<void> => {
    const { stdout } = await run(process.execPath, [packageFile(packageName, 'dist/index.js'), ...words, '--help']);
    const listed = stdout.split(/^Commands:$/m)[1];
    if (listed === undefined) {
      names.add(['e2b', ...words].join(' '));
      return;
    }
    const commands = [...listed.matchAll(/^ {2}([a-z]+)/gm)].map(([, command]) => command!);
    await Promise.all(commands.filter((command) => command !== 'help').map((command) => visit([...words, command])));
  };
  await visit([]);
  return names;
}
