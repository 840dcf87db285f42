import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { isInstalled } from '../../platform/config/programs.mjs';
import { checkImports } from './check/imports.ts';

/** `npm run check`: types, lint and format, dead code, import directions, SQL statements. All run at the same time. */
const root = path.resolve(import.meta.dirname, '../..');

interface Outcome {
  ok: boolean;
  output: string;
}

async function run(program: string, ...args: string[]): Promise<Outcome> {
  const child = spawn(path.join(root, 'node_modules/.bin', program), args, {
    cwd: root,
    env: { ...process.env, NO_COLOR: '1' },
  });
  const [out, errors, [code]] = await Promise.all([buffer(child.stdout), buffer(child.stderr), once(child, 'close')]);
  return { ok: code === 0, output: `${out}${errors}`.trim() };
}

async function imports(): Promise<Outcome> {
  const offences = await checkImports(root);
  return { ok: offences.length === 0, output: offences.join('\n') };
}

async function statements(): Promise<Outcome> {
  const program = path.join(import.meta.dirname, 'check-statements.ts');
  const child = spawn(process.execPath, [program], { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] });
  const [errors, [code]] = await Promise.all([buffer(child.stderr), once(child, 'close')]);
  return { ok: code === 0, output: `${errors}`.trim() };
}

/** Checks that each Perl program compiles, and that perlcritic has no complaint (`.perlcriticrc`). */
async function perl(): Promise<Outcome> {
  if (!isInstalled('perlcritic'))
    return { ok: false, output: 'perlcritic is missing: apt-get install libperl-critic-perl' };
  const outputs: string[] = [];
  const note = async (child: ChildProcessByStdio<null, Readable, Readable>) => {
    const [out, errors, [code]] = await Promise.all([buffer(child.stdout), buffer(child.stderr), once(child, 'close')]);
    if (code !== 0) outputs.push(`${out}${errors}`);
  };
  const files = globSync('{runtime,test}/**/*.pl', { cwd: root });
  for (const file of files) await note(spawn('perl', ['-c', file], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] }));
  await note(
    spawn('perlcritic', ['--profile', '.perlcriticrc', ...files], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] }),
  );
  return { ok: outputs.length === 0, output: outputs.join('') };
}

const checks: Record<string, () => Promise<Outcome>> = {
  types: () => run('tsc', '--noEmit', '--project', '.'),
  'types of web pages': () => run('tsc', '--noEmit', '--project', 'gateway/pages/web'),
  'types of the console': () => run('tsc', '--noEmit', '--project', 'console'),
  'lint and format': () => run('biome', 'ci', '--colors=off', '--error-on-warnings', '.'),
  'dead code': () => run('knip', '--no-progress'),
  'import directions': imports,
  'SQL statements': statements,
  perl,
};

const outcomes = await Promise.all(
  Object.entries(checks).map(async ([name, check]) => {
    const startedMs = Date.now();
    const outcome = await check();
    console.log(`${outcome.ok ? 'ok    ' : 'FAILED'}  ${name} (${((Date.now() - startedMs) / 1000).toFixed(1)} s)`);
    return { name, ...outcome };
  }),
);
for (const { name, ok, output } of outcomes) if (!ok) console.log(`\n${name}:\n${output}`);
if (outcomes.some(({ ok }) => !ok)) process.exitCode = 1;
