import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { madeOnce } from '../support/made-once.ts';

const run = promisify(execFile);
const repository = path.resolve(import.meta.dirname, '../..');

/** The project's path in the tree. It tests the space, too. */
const project = '/srv/the platform';

/** The PATH of a user who became root with `su`. */
const userPath = '/usr/local/bin:/usr/bin:/bin';

/**
 * A Debian with only its essential packages, apt, Node, and the project without npm packages. Programs run with it as
 * their root in separate namespaces. From this machine they have only the network and the control groups: the files that
 * apt needs to reach its mirror are copied.
 */
export class BareDebian {
  readonly root = fs.mkdtempSync(path.join(os.tmpdir(), 'bare-debian-'));

  /**
   * @param folders of the project to copy into the tree
   * @param options.include Debian packages that the tree has from its beginning
   */
  static async make(
    folders: string[],
    { suite = 'bookworm', include = [] }: { suite?: 'bookworm' | 'trixie'; include?: string[] } = {},
  ): Promise<BareDebian> {
    const made = await madeOnce('test-bare-debian', [suite, ...include], async (folder) => {
      const further = include.length > 0 ? [`--include=${include.join(',')}`] : [];
      const words = ['--quiet', '--mode=root', '--variant=minbase', ...further, suite];
      await run('mmdebstrap', [...words, path.join(folder, 'tree.tar')]);
    });
    const debian = new BareDebian();
    try {
      await run('tar', ['-xpf', path.join(made, 'tree.tar'), '-C', debian.root]);
      debian.#fill(folders);
    } catch (error) {
      debian.remove();
      throw error;
    }
    return debian;
  }

  /** Runs a program in the tree, in the project's folder. @returns its output, also when it failed */
  run(command: string, ...args: string[]): Promise<{ failed: boolean; output: string }> {
    // Not with chroot, in which the kernel refuses new user namespaces.
    const enter = [
      'mount --bind "$1" "$1"',
      'mount -t proc proc "$1/proc"',
      'mount -t tmpfs tmpfs "$1/tmp"',
      'mount -t sysfs sysfs "$1/sys"',
      'mount --rbind /sys/fs/cgroup "$1/sys/fs/cgroup"',
      'cd "$1" && shift',
      'pivot_root . . && umount -l .',
      'exec /usr/bin/env -i "$@"',
    ].join(' && ');
    const inside = [`--chdir=${project}`, `PATH=${userPath}`, command, ...args];
    const namespaces = ['--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child', '--propagation=private'];
    return new Promise((resolve) => {
      execFile(
        'unshare',
        [...namespaces, 'sh', '-c', enter, 'sh', this.root, ...inside],
        { timeout: 240_000, maxBuffer: 16 << 20 },
        (error, stdout, stderr) => resolve({ failed: error !== null, output: stdout + stderr }),
      );
    });
  }

  remove(): void {
    fs.rmSync(this.root, { recursive: true, force: true });
  }

  #fill(folders: string[]): void {
    for (const file of ['/etc/resolv.conf', '/etc/hosts']) this.#copy(file, file);
    // apt's access to its mirror: proxies and certificates of this machine.
    const settings = execFileSync('apt-config', ['dump'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => /^Acquire::(http|https|ftp)::/i.test(line));
    fs.writeFileSync(path.join(this.root, 'etc/apt/apt.conf.d/99machine'), `${settings.join('\n')}\n`);
    this.#copy(path.join(repository, 'node_modules/node/bin/node'), '/usr/local/bin/node');
    for (const folder of folders) this.#copy(path.join(repository, folder), path.join(project, folder));
    const { rdev } = fs.statSync('/dev/loop-control');
    const device = [`${rdev >> 8}`, `${rdev & 0xff}`];
    execFileSync('mknod', [path.join(this.root, 'dev/loop-control'), 'c', ...device]);
  }

  #copy(from: string, to: string): void {
    fs.cpSync(from, path.join(this.root, to), { recursive: true, dereference: true });
  }
}
