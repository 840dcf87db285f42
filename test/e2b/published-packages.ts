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

/** The versions of the Python packages e2b and e2b-code-interpreter that are installed together, newest first. */
export const pythonVersions = [
  ['2.63.0', '2.11.5'],
  ['2.61.0', '2.10.5'],
  ['2.60.0', '2.9.2'],
] as const;

/** A file of an installed npm package. */
export const packageFile = (name: string, file: string) => path.join(root, 'node_modules', name, file);

/** @returns the interpreter of an environment with this version of e2b. It is made once per machine, from PyPI */
export async function pythonWith(version: string): Promise<string> {
  const [e2b, interpreter] = pythonVersions.find(([each]) => each === version)!;
  const dependencies = fs.readFileSync(path.join(import.meta.dirname, 'python-dependencies.txt'), 'utf8');
  const wanted = [`e2b==${e2b}`, `e2b-code-interpreter==${interpreter}`];
  const made = await madeOnce('test-e2b-python', [...wanted, dependencies], async (folder) => {
    const file = path.join(folder, 'requirements.txt');
    fs.writeFileSync(file, [...wanted, dependencies].join('\n'));
    await run('python3', ['-m', 'venv', folder]);
    // No other packages than those of the file are installed.
    const quietly = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:'];
    await run(path.join(folder, 'bin/pip'), ['install', ...quietly, '-r', file]);
    await run(path.join(folder, 'bin/pip'), ['check']);
  });
  return path.join(made, 'bin/python');
}
