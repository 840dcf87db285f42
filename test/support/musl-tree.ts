import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from './made-once.ts';

const run = promisify(execFile);

/**
 * Debian's packages of busybox and of musl, the C library of Alpine, with a program that is linked with it
 * (`bin/ninja`): what of Alpine can be had where no image registry is. Made in some seconds, once a machine.
 * @returns the folder of the tree
 */
export async function muslTree(): Promise<string> {
  const ninja = 'ninja==1.13.2';
  const processor = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
  const made = await madeOnce('test-musl', [ninja], async (folder) => {
    const tree = path.join(folder, 'tree');
    await run('mmdebstrap', ['--quiet', '--variant=extract', '--include=musl,busybox-static', 'bookworm', tree]);
    const wheel = path.join(folder, 'wheel');
    await run('python3', ['-m', 'venv', path.join(folder, 'venv')]);
    const pip = ['download', '--quiet', '--no-deps', '--only-binary=:all:', '--dest', wheel];
    await run(path.join(folder, 'venv/bin/pip'), [...pip, `--platform=musllinux_1_2_${processor}`, ninja]);
    const [file] = fs.readdirSync(wheel);
    await run('python3', ['-m', 'zipfile', '-e', path.join(wheel, file!), wheel]);
    fs.copyFileSync(path.join(wheel, 'ninja-1.13.2.data/scripts/ninja'), path.join(tree, 'bin/ninja'));
    fs.chmodSync(path.join(tree, 'bin/ninja'), 0o755);
    for (const name of ['venv', 'wheel']) fs.rmSync(path.join(folder, name), { recursive: true });
  });
  return path.join(made, 'tree');
}
