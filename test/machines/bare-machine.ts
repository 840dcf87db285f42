import { type ChildProcess, execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { readPlatformEnv } from '../../ops/local-stack/supervisor/platform-env.ts';
import { BareDebian } from '../ops/bare-debian.ts';
import { removeHostRemains } from '../support/running-platform.ts';

/**
 * A Debian with only its essential packages, without Node, npm and Go, as the root of processes that outlive the commands
 * in it. From this machine they have the devices, the control groups and the network.
 */
export class BareMachine {
  readonly #debian: BareDebian;
  readonly #init: ChildProcess;
  #platform: ChildProcess | null = null;
  output = '';

  private constructor(debian: BareDebian, init: ChildProcess) {
    this.#debian = debian;
    this.#init = init;
  }

  static async make(): Promise<BareMachine> {
    const debian = await BareDebian.make([]);
    fs.rmSync(path.join(debian.root, 'usr/local/bin/node'));
    const enter = [
      'mount --bind "$1" "$1"',
      'mount -t proc proc "$1/proc"',
      'mount -t tmpfs tmpfs "$1/tmp"',
      'mount -t tmpfs tmpfs "$1/run"',
      'mount -t sysfs sysfs "$1/sys"',
      'mount --rbind /sys/fs/cgroup "$1/sys/fs/cgroup"',
      'mount --rbind /dev "$1/dev"',
      'cd "$1"',
      'pivot_root . . && umount -l .',
      'echo entered',
      'exec sleep infinity',
    ].join(' && ');
    const namespaces = ['--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child', '--propagation=private'];
    const init = spawn('unshare', [...namespaces, 'sh', '-c', enter, 'sh', debian.root], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await new Promise<void>((resolve, reject) => {
      init.stdout.once('data', () => resolve());
      init.once('exit', (code) => reject(new Error(`the machine ended with ${code}`)));
    });
    return new BareMachine(debian, init);
  }

  /** A file of the machine, as seen from outside. */
  file(name: string): string {
    return path.join(this.#debian.root, name);
  }

  /** Runs a shell command. @returns its output @throws {Error} when it fails */
  run(command: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const [program, ...words] = this.#enter(command);
      execFile(program!, words, { maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
        if (error) reject(new Error(`${command}: ${stdout}${stderr}`));
        else resolve(stdout);
      });
    });
  }

  /** Starts a release that was unpacked. @returns milliseconds until it was ready */
  async start(release: string, settings: Record<string, string>): Promise<number> {
    const startedMs = Date.now();
    const variables = Object.entries(settings).map(([name, value]) => `${name}='${value}'`);
    const [program, ...words] = this.#enter(
      `echo $$ > /run/platform.pid; exec env ${variables.join(' ')} ${release}/sandbox-platform start`,
    );
    const child = spawn(program!, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#platform = child;
    this.output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        this.output += chunk;
      });
    }
    while (!/^Ready in /m.test(this.output)) {
      if (child.exitCode !== null) throw new Error(`the platform did not start:\n${this.output}`);
      await delay(50);
    }
    return Date.now() - startedMs;
  }

  /** As Ctrl-C does. The sandboxes stay. */
  async stop(): Promise<void> {
    const child = this.#platform;
    this.#platform = null;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    // nsenter does not pass signals on.
    await this.run('kill $(cat /run/platform.pid)');
    await ended;
  }

  client(dataDir: string): PlatformClient {
    const { PLATFORM_URL, PLATFORM_API_KEY } = readPlatformEnv(this.file(dataDir)) as Record<string, string>;
    return new PlatformClient(PLATFORM_URL!, PLATFORM_API_KEY!);
  }

  /** Ends every process of the machine and removes it. @returns what was left on this machine */
  async remove(dataDir: string): Promise<string[]> {
    await this.stop();
    const ended = new Promise((resolve) => this.#init.once('exit', resolve));
    this.#init.kill('SIGKILL');
    await ended;
    const remains = fs.existsSync(this.file(dataDir)) ? await removeHostRemains(this.file(dataDir)) : [];
    this.#debian.remove();
    return remains;
  }

  /** The words of a program that runs a shell command in the machine. */
  #enter(command: string): string[] {
    // The first process of the machine is the only child of unshare.
    const [pid] = fs.readFileSync(`/proc/${this.#init.pid}/task/${this.#init.pid}/children`, 'utf8').split(' ');
    const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    const inside = ['env', '-i', '--chdir=/', `PATH=${path}`, 'HOME=/root', 'sh', '-c', command];
    return ['nsenter', `--target=${pid}`, '--mount', '--pid', '--ipc', '--uts', '--root', ...inside];
  }
}
