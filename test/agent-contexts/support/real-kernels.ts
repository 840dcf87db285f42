import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../../support/made-once.ts';

const run = promisify(execFile);
const root = path.resolve(import.meta.dirname, '../../..');

/**
 * Long enough for making them on a busy machine that has none yet: Python otherwise takes half a minute, R a minute.
 */
export const makingMs = 900_000;

/**
 * The `bin` folder of a Python with the packages of the code-interpreter template, and a Java kernel. It is made once
 * per machine from the package index.
 */
export function realPython(): Promise<string> {
  const requirements = path.join(root, 'runtime/images/code-interpreter/requirements.txt');
  const javaKernel = 'jjava==1.0a7';
  return madeOnce('test-python', [fs.readFileSync(requirements, 'utf8'), javaKernel], async (folder) => {
    await run('python3', ['-m', 'venv', folder]);
    await run(path.join(folder, 'bin/pip'), ['install', '--quiet', '-r', requirements, javaKernel]);
  }).then((folder) => path.join(folder, 'bin'));
}

/** The environment of a sandbox with a real R in a separate Debian tree, which is made once per machine. */
export async function realR(): Promise<Record<string, string>> {
  const command = [
    '--variant=apt',
    '--include=r-cran-irkernel',
    '--aptopt=APT::Install-Recommends "false"',
    '--dpkgopt=path-exclude=/usr/share/doc/*',
    '--dpkgopt=path-exclude=/usr/share/man/*',
    'bookworm',
  ];
  const folder = await madeOnce('test-r', command, async (made) => {
    await run('mmdebstrap', [...command, path.join(made, 'tree')]);
  });
  return { R_TREE: path.join(folder, 'tree'), JUPYTER_PATH: path.join(import.meta.dirname, 'jupyter') };
}
