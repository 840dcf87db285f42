import { accessSync, constants, existsSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** Programs the local driver runs, and the Debian package each is in. */
export const programs: Record<string, string> = {
  crun: 'crun',
  e2fsck: 'e2fsprogs',
  flock: 'util-linux',
  hostname: 'hostname',
  ip: 'iproute2',
  ldd: 'libc-bin',
  'mkfs.ext4': 'e2fsprogs',
  mmdebstrap: 'mmdebstrap',
  nft: 'nftables',
  nsenter: 'util-linux',
  patchelf: 'patchelf',
  perl: 'perl-base',
  s3fs: 's3fs',
  skopeo: 'skopeo',
  'tini-static': 'tini',
  umoci: 'umoci',
  unshare: 'util-linux',
};

const systemFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** The first Linux whose overlayfs takes layers with shifted ids. */
const oldestKernel = [5, 19];

/** Debian packages that are missing on this machine. crun is not, where there is runc. */
export function missingPackages(): string[] {
  const there = (program: string) => systemFolders.some((folder) => isExecutable(path.join(folder, program)));
  const missing = Object.keys(programs).filter((program) => !there(program) && !(program === 'crun' && there('runc')));
  return [...new Set(missing.map((program) => programs[program]!))];
}

/** @throws {Error} with what to do, when this machine cannot run sandboxes. */
export function requirePrerequisites(): void {
  if (process.platform !== 'linux') throw new Error('sandboxes run on Linux');
  if (process.getuid?.() !== 0) throw new Error('the local driver needs root');
  const [major = 0, minor = 0] = os.release().split('.').map(Number);
  if (major < oldestKernel[0]! || (major === oldestKernel[0] && minor < oldestKernel[1]!)) {
    throw new Error(`the local driver needs Linux ${oldestKernel.join('.')} or later, this is ${os.release()}`);
  }
  if (!existsSync('/dev/loop-control')) throw new Error('the local driver needs loop devices (modprobe loop)');
  const packages = missingPackages();
  if (packages.length > 0) throw new Error(`programs are missing: apt-get install ${packages.join(' ')}`);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
