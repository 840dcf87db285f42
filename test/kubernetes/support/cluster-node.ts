import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { fullPath } from '../../../platform/config/programs.mjs';
import { until } from '../../support/until.ts';
import type { ClusterPlace } from './cluster-place.ts';

const run = promisify(execFile);

/**
 * The first process of a node. It gives the node its own versions of folders whose paths are fixed in the kubelet and
 * containerd. Mounts propagate to pods but stay in the node's mount namespace. The process ends when its input ends,
 * because the test process has closed it or is dead. The kernel then ends every process, mount, link and firewall rule
 * of the node.
 */
const initScript = `set -e
folder=$1
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/lock "$folder/var-log" "$folder/var-lib" "$folder/var-lib-work"
mount --bind "$folder/var-log" /var/log
mount -t overlay -o "lowerdir=/var/lib,upperdir=$folder/var-lib,workdir=$folder/var-lib-work" overlay /var/lib
ip link set lo up
echo ready
cat > /dev/null`;

/**
 * `sh <folder> <setting:value>… -- <command>` runs a command with its own copies of files below `/proc/sys`, so that it
 * does not change settings of the whole machine.
 */
const settingsScript = `set -e
folder=$1; shift
mount --make-private /proc
while [ "$1" != -- ]; do
  file=$folder/$(basename "\${1%:*}")
  echo "\${1#*:}" > "$file"
  mount --bind "$file" "/proc/sys/\${1%:*}"
  shift
done
shift
exec "$@"`;

/** The PID, mount and network namespaces of a cluster's node. One link connects the node to the machine. */
export class ClusterNode {
  /** The process number of the node's first process on the machine. */
  readonly pid: number;
  readonly #init: ChildProcess;
  readonly #logs: string;
  readonly #programs = new Map<string, NodeProgram>();
  readonly #commands = new Map<string, readonly [command: string, args: readonly string[]]>();

  private constructor(init: ChildProcess, pid: number, logs: string) {
    this.#init = init;
    this.pid = pid;
    this.#logs = logs;
  }

  static async start(place: ClusterPlace): Promise<ClusterNode> {
    const logs = path.join(place.folder, 'logs');
    fs.mkdirSync(logs, { recursive: true });
    const complaints = fs.openSync(path.join(logs, 'init.log'), 'w');
    const init = spawn(
      'unshare',
      // With --kill-child the node also ends when `unshare` itself is killed.
      [
        ...['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', '--'],
        ...['tini', '--', 'sh', '-c', initScript, 'sh', place.folder],
      ],
      // `detached` makes a new session, so that Ctrl-C in the terminal reaches only the test process.
      { env: environment(), stdio: ['pipe', 'pipe', complaints], detached: true },
    );
    fs.closeSync(complaints);
    const [line] = await Promise.race([once(createInterface(init.stdout!), 'line'), once(init, 'exit')]);
    if (line !== 'ready') throw new Error(`The node: ${fs.readFileSync(path.join(logs, 'init.log'), 'utf8')}`);
    const pid = onlyChild(init.pid!);
    place.recordInit(pid);
    const node = new ClusterNode(init, pid, logs);
    await node.#connect(place);
    return node;
  }

  /** Starts a program. Its output goes to `logs/<name>.log`. */
  start(name: string, command: string, args: readonly string[]): NodeProgram {
    const program = new NodeProgram(name, path.join(this.#logs, `${name}.log`), this.#enter(command, args));
    this.#programs.set(name, program);
    this.#commands.set(name, [command, args]);
    return program;
  }

  /** Starts a program again, after its end, with the same arguments. */
  startAgain(name: string): NodeProgram {
    if (!this.program(name).hasEnded) throw new Error(`${name} is still there`);
    return this.start(name, ...this.#commands.get(name)!);
  }

  /**
   * Like `start`, for a program that changes settings of the whole machine.
   * @param own.settings the values that the program sees, by the path below `/proc/sys`
   * @param own.folder the folder for the files that the program changes instead of the machine's settings
   */
  startWithSettings(
    name: string,
    command: string,
    args: readonly string[],
    { settings, folder }: { settings: Record<string, string>; folder: string },
  ): NodeProgram {
    fs.mkdirSync(folder, { recursive: true });
    const own = Object.entries(settings).map((setting) => setting.join(':'));
    const unshared = ['--mount', '--propagation', 'unchanged', '--', 'sh', '-c', settingsScript, 'sh', folder, ...own];
    return this.start(name, 'unshare', [...unshared, '--', command, ...args]);
  }

  program(name: string): NodeProgram {
    const program = this.#programs.get(name);
    if (!program) throw new Error(`${name} was never started`);
    return program;
  }

  /** Runs a command in the node and waits for its end. @returns its standard output */
  async run(command: string, args: readonly string[]): Promise<string> {
    const [program, ...rest] = this.#enter(command, args);
    return (await run(program!, rest, { env: environment() })).stdout;
  }

  /** The path at which this process sees a file of the node, including the node's mounts. */
  inside(file: string): string {
    return path.join('/proc', String(this.pid), 'root', file);
  }

  /** Ends all processes of the node. */
  async stop(): Promise<void> {
    if (this.#init.exitCode !== null || this.#init.signalCode !== null) return;
    const ended = once(this.#init, 'exit');
    this.#init.stdin!.end();
    await ended;
  }

  #enter(command: string, args: readonly string[]): string[] {
    return ['nsenter', '--target', String(this.pid), '--mount', '--net', '--pid', '--wd=/', '--', command, ...args];
  }

  async #connect({ link, network }: ClusterPlace): Promise<void> {
    const { machine, node, pods, services } = network;
    await run('ip', ['link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(this.pid)]);
    await run('ip', ['address', 'add', `${machine}/30`, 'dev', link]);
    await run('ip', ['link', 'set', link, 'up']);
    await this.run('ip', ['address', 'add', `${node}/30`, 'dev', 'eth0']);
    await this.run('ip', ['link', 'set', 'eth0', 'up']);
    await this.run('ip', ['route', 'add', 'default', 'via', machine]);
    await this.run('sh', ['-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward']);
    for (const behind of [pods, services]) await run('ip', ['route', 'add', behind, 'via', node, 'dev', link]);
  }
}

/** A program of the node. It ends with the node. */
export class NodeProgram {
  readonly name: string;
  readonly #log: string;
  readonly #entering: ChildProcess;
  #hasEnded = false;

  constructor(name: string, log: string, [command, ...args]: readonly string[]) {
    this.name = name;
    this.#log = log;
    const output = fs.openSync(log, 'a');
    this.#entering = spawn(command!, args, { env: environment(), stdio: ['ignore', output, output], detached: true });
    fs.closeSync(output);
    this.#entering.once('error', () => {
      this.#hasEnded = true;
    });
    this.#entering.once('exit', () => {
      this.#hasEnded = true;
    });
  }

  /** @throws when the program ends before it is ready, or is not ready in time; the message has the end of its log */
  async whenReady(isReady: () => Promise<boolean>, timeoutMs = 120_000): Promise<void> {
    let lastError: unknown;
    const asked = async () => {
      if (this.#hasEnded) throw new Error(`${this.name} ended while starting:\n${this.logTail()}`);
      return isReady().catch((error: unknown) => {
        lastError = error;
        return false;
      });
    };
    try {
      await until(asked, timeoutMs, 100);
    } catch (cause) {
      throw new Error(`${this.name} is not ready (${lastError}):\n${this.logTail()}`, { cause });
    }
  }

  /** Sends a signal to the program and waits for its end. */
  async kill(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    if (this.#hasEnded) return;
    const ended = once(this.#entering, 'exit');
    process.kill(onlyChild(this.#entering.pid!), signal);
    await ended;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  logTail(): string {
    return fs.readFileSync(this.#log, 'utf8').slice(-3000);
  }
}

/** Converts values to arguments of the form `--name=value`. */
export function flags(values: Record<string, string>): string[] {
  return Object.entries(values).map(([name, value]) => `--${name}=${value}`);
}

/** The only child of a process. `unshare` and `nsenter` have one child, which runs in the new namespaces. */
function onlyChild(pid: number): number {
  const [child] = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  if (!child) throw new Error(`Process ${pid} has no child`);
  return Number(child);
}

/** The environment variables that every program needs. */
function environment(): NodeJS.ProcessEnv {
  return { PATH: fullPath(), HOME: '/root' };
}
