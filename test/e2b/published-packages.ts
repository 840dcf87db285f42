import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../support/made-once.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../..');

/** The npm packages by version, newest first, with the names under which package.json has them. */
export const npmPackages = {
  e2b: { '2.51.0': 'e2b', '2.50.0': 'e2b-2.50', '2.49.1': 'e2b-2.49' },
  'code-interpreter': {
    '2.8.0': '@e2b/code-interpreter',
    '2.7.2': 'e2b-code-interpreter-2.7',
    '2.6.1': 'e2b-code-interpreter-2.6',
  },
  cli: { '2.19.0': '@e2b/cli', '2.16.0': 'e2b-cli-2.16', '2.10.3': 'e2b-cli-2.10' },
};

/** Versions of the Python packages that are installed together, and the file in `python/` with all that they need. */
export interface PythonEnvironment {
  e2b: string;
  interpreter: string;
  dependencies: string;
}

const newest = { e2b: '2.63.0', interpreter: '2.11.5', dependencies: 'dependencies-2.60.txt' };
const second = { e2b: '2.61.0', interpreter: '2.10.5', dependencies: 'dependencies-2.60.txt' };
const third = { e2b: '2.60.0', interpreter: '2.10.5', dependencies: 'dependencies-2.60.txt' };
/** This interpreter uses a function of e2b that later versions do not have, although it accepts them. */
const withOlder = { e2b: '2.51.0', interpreter: '2.9.2', dependencies: 'dependencies-2.51.txt' };

/** The Python packages by version, newest first. */
export const pythonPackages: Record<'e2b' | 'code-interpreter', Record<string, PythonEnvironment>> = {
  e2b: { '2.63.0': newest, '2.61.0': second, '2.60.0': third },
  'code-interpreter': { '2.11.5': newest, '2.10.5': second, '2.9.2': withOlder },
};

/** A file of an installed npm package. */
export const packageFile = (name: string, file: string) => path.join(root, 'node_modules', name, file);

/** @returns the interpreter of the environment, which is made once per machine, from PyPI */
export async function pythonWith({ e2b, interpreter, dependencies }: PythonEnvironment): Promise<string> {
  const needed = fs.readFileSync(path.join(import.meta.dirname, 'python', dependencies), 'utf8');
  const wanted = [`e2b==${e2b}`, `e2b-code-interpreter==${interpreter}`, needed];
  const made = await madeOnce('test-e2b-python', wanted, async (folder) => {
    const file = path.join(folder, 'requirements.txt');
    fs.writeFileSync(file, wanted.join('\n'));
    await run('python3', ['-m', 'venv', folder]);
    // No other packages than those of the file are installed.
    const quietly = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:'];
    await run(path.join(folder, 'bin/pip'), ['install', ...quietly, '-r', file]);
    await run(path.join(folder, 'bin/pip'), ['check']);
  });
  return path.join(made, 'bin/python');
}
