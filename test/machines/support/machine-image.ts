import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { packagesFor } from '../../../platform/config/programs.mjs';
import { madeOnce } from '../../support/made-once.ts';
import { runningArm64 } from './arm64-files.ts';

const run = promisify(execFile);

/** What a machine boots from: a disk with a Debian, and its kernel. */
export interface MachineImage {
  disk: string;
  kernel: string;
  initrd: string;
  architecture: Architecture;
}

/** Node's names of processor architectures. */
export type Architecture = 'x64' | 'arm64';

/** Debian's names of its releases 12 and 13. */
export type Suite = 'bookworm' | 'trixie';

/** The folder at which a machine mounts its second disk. */
export const filesFolder = '/machine';

/** What a server has and a container has not. */
const system = ['dbus', 'initramfs-tools', 'kmod', 'openssh-server', 'procps', 'systemd', 'systemd-sysv', 'udev'];

/** Programs of the driver's tests. */
const tested = ['python3', 'tini', 'umoci'];

/** Debian's SELinux. The contexts of all files are written with the disk, which saves a boot. */
const selinux = {
  packages: ['policycoreutils', 'selinux-policy-default'],
  label: 'chroot "$1" setfiles -F /etc/selinux/default/contexts/files/file_contexts /',
};

/** Arguments of mmdebstrap that leave out what only people read. */
export const withoutDocs = ['man', 'doc', 'locale'].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`);

/** Shell commands that run in this order, with the new tree as `$1`. */
const customize = [
  'echo machine > "$1/etc/hostname"',
  `mkdir "$1${filesFolder}" && echo "/dev/vdb ${filesFolder} ext4 noatime 0 0" > "$1/etc/fstab"`,
  // The address of the resolver in QEMU's own network.
  'rm -f "$1/etc/resolv.conf" && echo nameserver 10.0.2.3 > "$1/etc/resolv.conf"',
  String.raw`printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' > "$1/etc/systemd/network/machine.network"`,
  `printf 'AuthorizedKeysFile ${filesFolder}/authorized_keys\\nUseDNS no\\n' > "$1/etc/ssh/sshd_config.d/machine.conf"`,
  'chroot "$1" systemctl enable systemd-networkd ssh',
  // Debian 13 has /tmp in memory, and the tests have disks of sandboxes there.
  'chroot "$1" systemctl mask tmp.mount',
  // They take seconds of an emulated boot.
  'chroot "$1" systemctl mask e2scrub_reap.service e2scrub_all.timer systemd-networkd-wait-online.service',
];

/** Only the drivers of the disks, because an emulated machine unpacks these files slowly. */
const initrd = [
  'mkdir -p "$1/etc/initramfs-tools/conf.d"',
  String.raw`printf 'MODULES=list\nCOMPRESS=gzip\n' > "$1/etc/initramfs-tools/conf.d/machine"`,
  String.raw`printf 'virtio_pci\nvirtio_blk\next4\n' > "$1/etc/initramfs-tools/modules"`,
].join(' && ');

/**
 * A Debian with systemd and its own kernel, made once per machine.
 * @param programs whether it has the programs that set-up installs, and those of the driver's tests
 * @param hasSelinux whether it has SELinux with Debian's policy. The kernel's command line turns it on
 */
export async function debianImage(
  suite: Suite,
  {
    programs = true,
    architecture = 'x64',
    hasSelinux = false,
  }: { programs?: boolean; architecture?: Architecture; hasSelinux?: boolean } = {},
): Promise<MachineImage> {
  const debianName = architecture === 'x64' ? 'amd64' : 'arm64';
  const included = [
    ...system,
    `linux-image-cloud-${debianName}`,
    ...(programs ? [...packagesFor('start'), ...tested] : []),
    ...(hasSelinux ? selinux.packages : []),
  ];
  const args = [
    '--quiet',
    `--architectures=${debianName}`,
    '--mode=root',
    '--variant=minbase',
    '--format=directory',
    `--include=${included}`,
    ...withoutDocs,
  ];
  args.push(`--essential-hook=${initrd}`);
  for (const command of customize) args.push(`--customize-hook=${command}`);
  if (hasSelinux) args.push(`--customize-hook=${selinux.label}`);
  const folder = await madeOnce(`test-machine-${suite}-${architecture}`, [suite, ...args], async (made) => {
    const tree = path.join(made, 'tree');
    const make = () => run('mmdebstrap', [...args, suite, tree]);
    await (architecture === 'arm64' ? runningArm64(make) : make());
    const find = (name: string) =>
      path.join(tree, 'boot', fs.readdirSync(path.join(tree, 'boot')).find((file) => file.startsWith(name))!);
    fs.copyFileSync(find('vmlinuz-'), path.join(made, 'kernel'));
    fs.copyFileSync(find('initrd.img-'), path.join(made, 'initrd'));
    await run('mke2fs', ['-q', '-t', 'ext4', '-d', tree, path.join(made, 'disk'), '16G']);
    fs.rmSync(tree, { recursive: true });
  });
  const [disk, kernel, ramDisk] = ['disk', 'kernel', 'initrd'].map((name) => path.join(folder, name));
  return { disk: disk!, kernel: kernel!, initrd: ramDisk!, architecture };
}
