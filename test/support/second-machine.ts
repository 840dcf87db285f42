import { execFileSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import path from 'node:path';
import { ChildProgram, type ProgramHome } from '../../ops/local-stack/embedded/child-program.ts';
import { readLogLine } from '../../ops/local-stack/supervisor/log-line.ts';
import { TcpRelay } from './tcp-relay.ts';

const root = path.resolve(import.meta.dirname, '../..');

/**
 * Lines of a shell with mounts of its own, in a network namespace: they mount that network's view of the devices, and
 * keep the control groups in their places.
 */
export const mountOwnSys = `kept=$(mktemp -d)
mount --rbind /sys/fs/cgroup "$kept"
umount -R -l /sys
mount -t sysfs sysfs /sys
mount --rbind "$kept" /sys/fs/cgroup
umount -R -l "$kept"
rmdir "$kept"`;

/**
 * Another machine: a network namespace with one link to this machine. Neither side has a route to the networks behind
 * the other's address.
 */
export class SecondMachine {
  readonly namespace: string;
  /** This machine's address on the link. */
  readonly near: string;
  /** The other machine's. */
  readonly far: string;
  /**
   * The subnet of its sandboxes. Hosts do not choose it automatically: the other machine cannot see which subnets hosts
   * here use.
   */
  readonly sandboxSubnet: string;
  readonly #link: string;
  /** Removes what was made so far. */
  readonly #undo = new DisposableStack();

  private constructor() {
    const name = randomBytes(4).toString('hex');
    this.namespace = `second-${name}`;
    this.#link = `sec${name}`;
    // A network for tests of networks (RFC 2544), which sandboxes never use.
    const subnet = `198.18.${randomInt(256)}`;
    const first = randomInt(64) * 4;
    this.near = `${subnet}.${first + 1}`;
    this.far = `${subnet}.${first + 2}`;
    this.sandboxSubnet = `10.${randomInt(224, 240)}.${randomInt(256)}.0/24`;
  }

  static make(): SecondMachine {
    const machine = new SecondMachine();
    try {
      machine.#join();
      return machine;
    } catch (error) {
      machine.close();
      throw error;
    }
  }

  #join(): void {
    ip('netns', 'add', this.namespace);
    this.#undo.defer(() => ip('netns', 'delete', this.namespace));
    ip('link', 'add', this.#link, 'type', 'veth', 'peer', 'name', 'up0', 'netns', this.namespace);
    // Otherwise it would disappear only with the namespace's last process.
    this.#undo.defer(() => ip('link', 'delete', this.#link));
    ip('address', 'add', `${this.near}/30`, 'dev', this.#link);
    ip('link', 'set', this.#link, 'up');
    ip('-n', this.namespace, 'link', 'set', 'lo', 'up');
    ip('-n', this.namespace, 'address', 'add', `${this.far}/30`, 'dev', 'up0');
    ip('-n', this.namespace, 'link', 'set', 'up0', 'up');
  }

  /** Makes a server on loopback of this machine reachable on the link. @returns `address:port` */
  async relay(address: string): Promise<string> {
    const relay = await TcpRelay.open(address, this.near);
    this.#undo.defer(() => relay.close());
    return relay.address;
  }

  /**
   * Starts a program of the platform on the other machine and waits until it reports that it is ready.
   * @param script from the project's root: `worker/host.ts`
   * @throws {ProgramError} when it does not become ready
   */
  async start(options: {
    name: string;
    script: string;
    env: NodeJS.ProcessEnv;
    home: ProgramHome;
  }): Promise<ChildProgram> {
    const { name, script, env, home } = options;
    const ready = Promise.withResolvers<void>();
    const words = [
      `--net=/run/netns/${this.namespace}`,
      'unshare',
      '--mount',
      'sh',
      '-c',
      `set -e\n${mountOwnSys}\nexec "$@"`,
      'sh',
    ];
    const program = await ChildProgram.start({
      ...{ name, env, home },
      command: 'nsenter',
      args: [...words, process.execPath, path.join(root, script)],
      stopTimeoutMs: 20_000,
      onLine: (line) => {
        if (readLogLine(line)?.isReady) ready.resolve();
      },
    });
    await program.whenReady(() => ready.promise);
    return program;
  }

  /** Drops everything that is sent from now on, in both directions. */
  cut(): void {
    ip('-n', this.namespace, 'link', 'set', 'up0', 'down');
  }

  restore(): void {
    ip('-n', this.namespace, 'link', 'set', 'up0', 'up');
  }

  /** The devices of the routes from this machine, or from the other one, to an address. */
  devicesTo(address: string, { from }: { from: 'near' | 'far' }): (string | undefined)[] {
    const there = from === 'far' ? ['-n', this.namespace] : [];
    const routes = ip(...there, '-json', 'route', 'show', 'to', 'match', address) || '[]';
    return (JSON.parse(routes) as { dev?: string }[]).map(({ dev }) => dev);
  }

  /** The names of the link on this machine and on the other. */
  get links(): { near: string; far: string } {
    return { near: this.#link, far: 'up0' };
  }

  /** Network interfaces of the other machine. */
  interfaces(): string[] {
    const found = JSON.parse(ip('-n', this.namespace, '-json', 'link', 'show')) as { ifname: string }[];
    return found.map(({ ifname }) => ifname);
  }

  /** Open connections of the other machine to one of its ports, as `ss` lists them. */
  connectionsTo(port: number): string[] {
    const asked = ['ss', '-Htn', 'state', 'established', 'sport', '=', `:${port}`];
    const listed = execFileSync('nsenter', [`--net=/run/netns/${this.namespace}`, ...asked], { encoding: 'utf8' });
    return listed.split('\n').filter(Boolean);
  }

  /** Removes the machine. Its programs must have ended. */
  close(): void {
    this.#undo.dispose();
  }
}

function ip(...words: string[]): string {
  return execFileSync('ip', words, { encoding: 'utf8' });
}
