import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { cacheDir, temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { packagesFor } from '../../platform/config/programs.mjs';
import { cachedBaseImage } from '../../runtime/images/base-image.ts';
import { findHierarchies } from '../../runtime/machine/hierarchies.mjs';
import { madeOnce } from './made-once.ts';
import { until } from './until.ts';

const run = promisify(execFile);
const repository = path.resolve(import.meta.dirname, '../..');

/** The repository in the box, read-only. */
export const projectInBox = '/srv/sandbox-platform';

/** The packages of the box in addition to those of the platform. */
const packages = ['systemd', 'systemd-sysv', 'dbus', 'procps'];

/** Units that only a whole machine needs. Some would change this machine's kernel. */
const masked = [
  ...[
    'systemd-sysctl.service',
    'systemd-modules-load.service',
    'systemd-udevd.service',
    'systemd-udev-trigger.service',
  ],
  ...['systemd-remount-fs.service', 'console-getty.service', 'getty.target', 'docker-registry.service'],
  ...['dev-hugepages.mount', 'dev-mqueue.mount', 'sys-kernel-debug.mount', 'sys-kernel-tracing.mount'],
  ...['sys-fs-fuse-connections.mount', 'proc-sys-fs-binfmt_misc.automount'],
];

/** The hierarchies of control groups in the box: those of this machine, in the version that the driver uses. */
const { version, roots, hybridRoot } = findHierarchies();
const hierarchies = roots.filter((hierarchy) => hierarchy !== hybridRoot);

/**
 * A Debian that systemd boots as its first process, in namespaces of this machine: it has its own processes, control
 * groups, mounts, host name and network, which leads nowhere. The kernel and the devices are this machine's. So it is as
 * fast as this machine, and its sandboxes are real.
 */
export class SystemdBox {
  readonly #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'systemd-box-'));
  readonly #group = path.basename(this.#folder);
  #process: ChildProcess | undefined;

  get #root(): string {
    return path.join(this.#folder, 'root');
  }

  /** Makes a box and boots it. Resolves when systemd has started everything. */
  static async boot(): Promise<SystemdBox> {
    const all = [...new Set([...packages, ...packagesFor('start')])].sort();
    const made = await madeOnce('test-systemd-box', ['bookworm', ...all], async (folder) => {
      const words = ['--quiet', '--mode=root', '--variant=minbase', `--include=${all.join(',')}`, 'bookworm'];
      await run('mmdebstrap', [...words, path.join(folder, 'tree.tar')]);
    });
    const box = new SystemdBox();
    try {
      fs.mkdirSync(box.#root);
      await run('tar', ['-xpf', path.join(made, 'tree.tar'), '-C', box.#root]);
      await box.#fill();
      await box.#start();
      return box;
    } catch (error) {
      box.close();
      throw error;
    }
  }

  async #start(): Promise<void> {
    for (const hierarchy of hierarchies) this.#makeGroup(path.join(hierarchy, this.#group));
    const namespaces = ['--mount', '--pid', '--uts', '--ipc', '--net', '--fork', '--kill-child'];
    const console = path.join(this.#folder, 'console');
    const output = fs.openSync(console, 'a');
    const begun = spawn('unshare', [...namespaces, '--propagation=private', 'sh', '-ec', this.#bootScript()], {
      stdio: ['ignore', output, output],
    });
    fs.closeSync(output);
    this.#process = begun;
    await until(
      async () => {
        if (begun.exitCode !== null) throw new Error(`the box ended: ${fs.readFileSync(console, 'utf8')}`);
        return (await this.try('systemctl is-system-running')).output.trim() === 'running';
      },
      90_000,
      500,
    );
  }

  /** Shuts down as a machine does, and boots again. */
  async reboot(): Promise<void> {
    const ended = once(this.#process!, 'exit');
    await this.run('systemctl reboot --no-block');
    await ended;
    this.#removeGroups();
    await this.#start();
  }

  /** Runs a shell script in the box as root. @returns its output @throws {Error} with its output when it fails */
  async run(script: string): Promise<string> {
    const { status, output } = await this.try(script);
    if (status !== 0) throw new Error(`status ${status} of: ${script}\n${output}`);
    return output;
  }

  /** Runs a shell script in the box as root, which may fail. */
  async try(script: string): Promise<{ status: number | null; output: string }> {
    const inside = ['env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LC_ALL=C', 'sh', '-c'];
    const enter = ['--mount', '--pid', '--uts', '--ipc', '--net', '--cgroup', '--root', '--wd'];
    const words = [`--target=${this.#firstPid()}`, ...enter, ...inside, `exec 2>&1; ${script}`];
    const child = spawn('nsenter', words, { stdio: ['ignore', 'pipe', 'pipe'] });
    const [output, complaint, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { status, output: output + complaint };
  }

  /** Ends everything in it, and removes it. */
  close(): void {
    this.#process?.kill('SIGKILL');
    this.#removeGroups();
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The number of systemd's process on this machine. */
  #firstPid(): number {
    const { pid } = this.#process!;
    return Number(fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'));
  }

  async #fill(): Promise<void> {
    const inside = (place: string) => path.join(this.#root, place);
    for (const unit of masked) fs.symlinkSync('/dev/null', inside(`etc/systemd/system/${unit}`));
    fs.rmSync(inside('etc/fstab'), { force: true });
    fs.mkdirSync(inside(projectInBox), { recursive: true });
    // What the set-up would download, build or make.
    const image = path.dirname((await cachedBaseImage({ cacheDir: cacheDir() }))!.rootfs);
    for (const folder of [image, temporalPrograms().dir]) {
      const to = path.join(inside('var/cache/sandbox-platform'), path.relative(cacheDir(), folder));
      fs.mkdirSync(path.dirname(to), { recursive: true });
      await run('cp', ['--archive', folder, to]);
    }
  }

  #makeGroup(folder: string): void {
    if (version === 2)
      fs.writeFileSync(path.join(folder, '../cgroup.subtree_control'), '+cpu +cpuset +io +memory +pids');
    fs.mkdirSync(folder);
    if (version === 2) return;
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      const above = path.join(folder, '..', name);
      if (fs.existsSync(above)) fs.writeFileSync(path.join(folder, name), fs.readFileSync(above));
    }
  }

  #removeGroups(): void {
    for (const hierarchy of hierarchies) {
      const group = path.join(hierarchy, this.#group);
      if (!fs.existsSync(group)) continue;
      // A paused sandbox ends only after it is thawed. Processes that have just been killed are in a group for a moment.
      const thaw = 'find "$1" -name freezer.state | while read state; do echo THAWED > "$state"; done';
      const remove = `for try in $(seq 100); do ${thaw}
        find "$1" -depth -type d -exec rmdir {} + 2>/dev/null && exit; sleep 0.1; done`;
      execFileSync('sh', ['-c', `${remove}; ls -R "$1" >&2; exit 1`, 'sh', group]);
    }
  }

  #bootScript(): string {
    const mounts = hierarchies.map((hierarchy) => {
      const place = `"$root"${hierarchy}`;
      const name = path.basename(hierarchy);
      const options = name === 'systemd' ? 'none,name=systemd' : name;
      return version === 2
        ? `mount -t cgroup2 box ${place}`
        : `mkdir ${place}; mount -t cgroup -o ${options} box ${place}`;
    });
    const joins = hierarchies.map((hierarchy) => `echo 0 > ${hierarchy}/${this.#group}/cgroup.procs`);
    // In a container, systemd reads the options of the kernel's command line from its own. Without the last one it mounts
    // version 2 beside version 1.
    const options = ['--show-status=no', '--log-target=journal'];
    if (version === 1) options.push('systemd.legacy_systemd_cgroup_controller=1');
    // A shell in the group, whose control group namespace begins there.
    return `${joins.join('\n')}
exec unshare --cgroup sh -ec '
root=${this.#root}
mount --bind "$root" "$root"
mount --bind ${repository} "$root"${projectInBox}
mount -o remount,bind,ro "$root"${projectInBox}
ip link set lo up
hostname box
mount -t proc proc "$root"/proc
mount -t sysfs -o ro sysfs "$root"/sys
${version === 2 ? '' : 'mount -t tmpfs -o mode=755 tmpfs "$root"/sys/fs/cgroup'}
${mounts.join('\n')}
mount --rbind /dev "$root"/dev
mount --bind /dev/null "$root"/dev/kmsg
mount -t tmpfs -o mode=755 tmpfs "$root"/run
mount -t tmpfs tmpfs "$root"/tmp
cd "$root"
pivot_root . .
umount -l .
exec env -i container=box PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd ${options.join(' ')}
'`;
  }
}
