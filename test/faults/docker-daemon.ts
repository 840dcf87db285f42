import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { until } from '../../runtime/process/until.ts';

const cgroups = '/sys/fs/cgroup';

/** A Docker daemon in its own network, process and mount namespaces, so that its firewall rules stay there. */
export class DockerDaemon {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'docker-daemon-'));
  readonly #unshare: ChildProcess;
  readonly #group = `docker-test-${process.pid}`;

  private constructor() {
    const words = [
      `--data-root=${this.folder}/data`,
      `--exec-root=${this.folder}/exec`,
      `--host=${this.address}`,
      `--pidfile=${this.folder}/pid`,
      `--cgroup-parent=/${this.#group}`,
      '--storage-driver=overlay2',
    ];
    const script =
      'mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && ip link set lo up && exec dockerd "$@"';
    const log = fs.openSync(path.join(this.folder, 'log'), 'a');
    this.#unshare = spawn(
      'unshare',
      ['--net', '--pid', '--mount', '--fork', '--kill-child', 'sh', '-c', script, 'sh', ...words],
      { stdio: ['ignore', log, log] },
    );
    fs.closeSync(log);
  }

  static async start(): Promise<DockerDaemon> {
    const daemon = new DockerDaemon();
    const answers = () =>
      daemon.docker('info').then(
        () => true,
        () => false,
      );
    if (await until(answers, { timeoutSeconds: 60, everyMs: 200 })) return daemon;
    const log = fs.readFileSync(path.join(daemon.folder, 'log'), 'utf8');
    await daemon.stop();
    throw new Error(`dockerd does not start: ${log.slice(-2000)}`);
  }

  get address(): string {
    return `unix://${this.folder}/docker.sock`;
  }

  async docker(...words: string[]): Promise<string> {
    return this.run('docker', words);
  }

  /** Runs a client of the daemon. */
  async run(program: string, words: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    const options = { env: { ...process.env, DOCKER_HOST: this.address, ...env }, timeout: 240_000 };
    return (await promisify(execFile)(program, words, options)).stdout;
  }

  /** Runs a program in the daemon's network, which has the role of its machine's. */
  async inNetwork(words: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    const { pid } = this.#unshare;
    const [inner] = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ');
    const options = { env: { ...process.env, ...env }, timeout: 120_000 };
    return (await promisify(execFile)('nsenter', [`--net=/proc/${inner}/ns/net`, '--', ...words], options)).stdout;
  }

  /** Imports an image of links into the machine's `/usr`, which a container must mount, and a copy of its `/etc`. */
  async importThinImage(name: string, settings: readonly string[]): Promise<void> {
    const root = path.join(this.folder, 'root');
    for (const folder of [
      'app',
      'data',
      'cache',
      'usr',
      'tmp',
      'var/lib',
      'var/tmp',
      'run',
      'root',
      'dev',
      'proc',
      'sys',
      'mnt',
    ]) {
      fs.mkdirSync(path.join(root, folder), { recursive: true });
    }
    for (const folder of ['tmp', 'var/tmp']) fs.chmodSync(path.join(root, folder), 0o1777);
    for (const folder of ['bin', 'sbin', 'lib', 'lib64']) fs.symlinkSync(`usr/${folder}`, path.join(root, folder));
    execFileSync('cp', ['--archive', '/etc', root]);
    for (const file of ['resolv.conf', 'hostname', 'hosts']) fs.rmSync(path.join(root, 'etc', file), { force: true });
    execFileSync('tar', ['--create', '--file', `${root}.tar`, '--directory', root, '.']);
    const changes = [...settings, 'WORKDIR /app'].flatMap((line) => ['--change', line]);
    await this.docker('import', ...changes, `${root}.tar`, name);
  }

  /**
   * Stops it with all its containers.
   * @param groups of processes that would remain frozen
   */
  async stop(groups: readonly string[] = []): Promise<void> {
    for (const group of groups) await endGroup(group);
    const ended = new Promise((resolve) => this.#unshare.once('exit', resolve));
    if (this.#unshare.exitCode === null && this.#unshare.signalCode === null) {
      this.#unshare.kill('SIGKILL');
      await ended;
    }
    const removed = () => [...groups, this.#group].flatMap(listFolders).every(removeGroup);
    if (!(await until(removed, { timeoutSeconds: 30, everyMs: 100 }))) throw new Error('control groups stay behind');
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 20 });
  }
}

/** The folders of a group, in each hierarchy. */
function listFolders(group: string): string[] {
  const hierarchies = [cgroups, ...fs.readdirSync(cgroups).map((name) => path.join(cgroups, name))];
  return hierarchies.map((hierarchy) => path.join(hierarchy, group)).filter((folder) => fs.existsSync(folder));
}

function withChildren(folder: string): string[] {
  const children = fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [...children.flatMap((entry) => withChildren(path.join(folder, entry.name))), folder];
}

/** Kills before it thaws, so that thawed processes do not run. Empty groups are removed automatically. */
async function endGroup(group: string): Promise<void> {
  const folders = listFolders(group).flatMap(withChildren);
  for (const folder of folders) {
    unlessGone(() => {
      const pids = fs.readFileSync(`${folder}/cgroup.procs`, 'latin1').split('\n').filter(Boolean);
      for (const pid of pids) unlessGone(() => process.kill(Number(pid), 'SIGKILL'));
    });
  }
  for (const folder of folders) {
    unlessGone(() => {
      const state = fs.existsSync(`${folder}/freezer.state`) ? ['freezer.state', 'THAWED'] : ['cgroup.freeze', '0'];
      if (fs.existsSync(`${folder}/${state[0]}`)) fs.writeFileSync(`${folder}/${state[0]}`, state[1]!);
    });
  }
}

function unlessGone(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!['ENOENT', 'ENODEV', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

function removeGroup(folder: string): boolean {
  for (const each of withChildren(folder)) {
    try {
      fs.rmdirSync(each);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EBUSY') return false;
      if (code !== 'ENOENT') throw error;
    }
  }
  return true;
}
