import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ChildProgram, plainEnvironment } from '../../ops/local-stack/embedded/child-program.ts';
import { fullPath } from '../../platform/config/programs.mjs';

const run = promisify(execFile);
const cgroups = '/sys/fs/cgroup';
/**
 * Docker's first process. It stays, because a process namespace ends with it, and collects ended shims. Docker writes a
 * key into `/etc`, so that has a layer which is thrown away.
 */
const first = `set -e
etc=$1
shift
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$etc/upper,workdir=$etc/work" /etc
dockerd "$@" &
wait $!`;

/**
 * A Docker daemon in namespaces of its own: its bridge, firewall rules, mounts and containers disappear with them, and a
 * Docker of the machine is not touched.
 */
export class DockerDaemon {
  readonly host: string;
  readonly #program: ChildProgram;
  readonly #cgroup: string;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(program: ChildProgram, folder: string) {
    this.host = `unix://${folder}/docker.sock`;
    this.#program = program;
    this.#cgroup = path.basename(folder);
    this.#env = { ...plainEnvironment(), PATH: fullPath(), DOCKER_HOST: this.host, DOCKER_CONFIG: folder };
  }

  /**
   * @param network the name of its network namespace
   * @param folder for all its files. Its name is also the name of its control group
   * @throws {ProgramError} with the end of its log
   */
  static async start(network: string, folder: string): Promise<DockerDaemon> {
    for (const each of ['upper', 'work']) mkdirSync(path.join(folder, 'etc', each), { recursive: true });
    const config = path.join(folder, 'daemon.json');
    writeFileSync(config, '{}');
    const namespaces = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const options = [
      ...['--config-file', config, '--host', `unix://${folder}/docker.sock`, '--pidfile', path.join(folder, 'pid')],
      ...['--data-root', path.join(folder, 'data'), '--exec-root', path.join(folder, 'exec'), '--log-level', 'warn'],
      ...['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${path.basename(folder)}`],
    ];
    const program = await ChildProgram.start({
      name: 'dockerd',
      command: 'nsenter',
      args: [
        `--net=/run/netns/${network}`,
        ...namespaces,
        'sh',
        '-c',
        first,
        'sh',
        path.join(folder, 'etc'),
        ...options,
      ],
      home: { logDir: folder },
      env: { ...plainEnvironment(), PATH: fullPath() },
      // unshare ignores SIGTERM. When it is killed, the kernel kills everything in the process namespace.
      stopSignal: 'SIGKILL',
    });
    const daemon = new DockerDaemon(program, folder);
    await program.whenReady(() => daemon.docker('version'));
    return daemon;
  }

  /** Runs `docker`. @returns its output */
  async docker(...words: string[]): Promise<string> {
    return (await run('docker', words, { env: this.#env })).stdout.trim();
  }

  async stop(): Promise<void> {
    await this.#program.stop();
    // With cgroup v1 each controller has its own tree.
    for (const tree of [cgroups, ...readdirSync(cgroups).map((name) => path.join(cgroups, name))]) {
      await removeGroup(path.join(tree, this.#cgroup));
    }
  }
}

/** The kernel refuses while the group's last processes are ending. */
async function removeGroup(group: string): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (existsSync(group)) {
    try {
      const entries = readdirSync(group, { recursive: true, withFileTypes: true }).filter((each) => each.isDirectory());
      const inner = entries.map((each) => path.join(each.parentPath, each.name));
      for (const each of [...inner.sort().reverse(), group]) rmdirSync(each);
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await delay(100);
    }
  }
}
