import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../../support/made-once.ts';
import { type Architecture, withoutDocs } from './machine-image.ts';

const packages = { x64: 'qemu-system-x86', arm64: 'qemu-system-arm' };

/**
 * QEMU of Debian 13, which this machine may not have. In machines of QEMU 7.2, that of Debian 12, Node crashes now and
 * then.
 * @param architecture of the machines that it emulates
 * @returns the words that come before the name of one of its programs
 */
export async function emulator(architecture: Architecture): Promise<string[]> {
  const included = `--include=${packages[architecture]},qemu-utils`;
  const args = ['--quiet', '--mode=root', '--variant=minbase', included, ...withoutDocs];
  const folder = await madeOnce('test-emulator', args, async (made) => {
    await promisify(execFile)('mmdebstrap', [...args, 'trixie', path.join(made, 'tree')]);
  });
  // Only its own process sees its programs and libraries in place of this machine's.
  const inside = 'mount --bind "$0" /usr && exec "$@"';
  return ['unshare', '--mount', 'sh', '-c', inside, path.join(folder, 'tree/usr')];
}
