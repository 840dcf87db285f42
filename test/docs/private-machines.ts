import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import type net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { removeHostRemains } from '../support/running-platform.ts';
import { mountOwnSys } from '../support/second-machine.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { until } from '../support/until.ts';

const root = path.resolve(import.meta.dirname, '../..');
/** Ends the output of a block. */
const separator = '\u001e';

/**
 * Makes the machine's own view of devices, /etc and host name, and a folder for data, then becomes the machine's shell.
 * What it changes in /etc disappears with its last process. Its settings and data are in the shared folder.
 */
const becomeMachine = `set -e
shared=$1 name=$2
${mountOwnSys}
for folder in etc var/lib; do
  layers=$shared/$name/layers/$folder
  mkdir -p "$layers"
  mount -t tmpfs tmpfs "$layers"
  mkdir "$layers/upper" "$layers/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$layers/upper,workdir=$layers/work" "/$folder"
done
mkdir -p "$shared/$name/etc" "$shared/$name/data"
ln -s "$shared/$name/etc" /etc/sandbox-platform
ln -s "$shared/$name/data" /var/lib/sandbox-platform
hostname "$name"
exec bash`;

/** `scp` as the guide calls it. It copies between the folders of the machines, without a server. */
const scp = (shared: string) => `scp() {
  local to="\${@: -1}"
  for file in "\${@:2:$#-2}"; do cp --preserve=mode "$file" "${shared}/$(expr "$to" : 'root@\\([a-z]*\\):/etc/sandbox-platform/$')/etc/"; done
}`;

/**
 * Machines on one private network: network namespaces at a bridge that has a namespace of its own. They have no other
 * network. Their file system is this machine's, except /etc, host name and data.
 */
export class PrivateMachines {
  readonly #machines = new Map<string, PrivateMachine>();
  readonly #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'private-machines-'));
  readonly #names = `private-${randomBytes(4).toString('hex')}`;
  readonly #namespaces: string[] = [];

  /**
   * @param addresses of each machine, by name, in one /24
   * @param env of the shells
   */
  static async make(addresses: Record<string, string>, env: NodeJS.ProcessEnv): Promise<PrivateMachines> {
    const machines = new PrivateMachines();
    try {
      machines.#addNamespace('switch');
      ip('-n', machines.#namespace('switch'), 'link', 'add', 'bridge', 'type', 'bridge');
      ip('-n', machines.#namespace('switch'), 'link', 'set', 'bridge', 'up');
      for (const [name, address] of Object.entries(addresses)) await machines.#add(name, address, env);
      return machines;
    } catch (error) {
      await machines.close();
      throw error;
    }
  }

  get(name: string): PrivateMachine {
    return this.#machines.get(name)!;
  }

  /** Ends all processes of the machines. @returns what their hosts left behind, which is removed */
  async close(): Promise<string[]> {
    const remains: string[] = [];
    for (const machine of this.#machines.values()) await machine.stop();
    for (const machine of this.#machines.values()) {
      if (fs.existsSync(path.join(machine.dataDir, 'oci'))) remains.push(...(await removeHostRemains(machine.dataDir)));
    }
    for (const name of this.#namespaces.reverse()) ip('netns', 'delete', name);
    fs.rmSync(this.#folder, { recursive: true, force: true });
    return remains;
  }

  #namespace(name: string): string {
    return `${this.#names}-${name}`;
  }

  #addNamespace(name: string): void {
    ip('netns', 'add', this.#namespace(name));
    this.#namespaces.push(this.#namespace(name));
    ip('-n', this.#namespace(name), 'link', 'set', 'lo', 'up');
  }

  async #add(name: string, address: string, env: NodeJS.ProcessEnv): Promise<void> {
    this.#addNamespace(name);
    const [own, bridge] = [this.#namespace(name), this.#namespace('switch')];
    ip('-n', bridge, 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', own);
    ip('-n', bridge, 'link', 'set', name, 'master', 'bridge', 'up');
    ip('-n', own, 'address', 'add', `${address}/24`, 'dev', 'eth0');
    ip('-n', own, 'link', 'set', 'eth0', 'up');
    const machine = new PrivateMachine({ name, address, namespace: own, folder: this.#folder, env });
    this.#machines.set(name, machine);
    await machine.run(scp(this.#folder));
  }
}

/** A machine with one shell. */
export class PrivateMachine {
  readonly name: string;
  readonly address: string;
  /** The data folder of its host, as this machine sees it. */
  readonly dataDir: string;
  readonly #folder: string;
  readonly #namespace: string;
  readonly #shell: ChildProcess;
  readonly #relays: TcpRelay[] = [];
  #output = '';
  #errors = '';

  constructor(options: { name: string; address: string; namespace: string; folder: string; env: NodeJS.ProcessEnv }) {
    this.name = options.name;
    this.address = options.address;
    this.#namespace = options.namespace;
    this.#folder = path.join(options.folder, options.name);
    this.dataDir = path.join(this.#folder, 'data');
    fs.mkdirSync(this.#folder, { recursive: true });
    const words = [`--net=/run/netns/${options.namespace}`, 'unshare', '--mount', '--uts', 'sh', '-c', becomeMachine];
    this.#shell = spawn('nsenter', [...words, 'sh', options.folder, options.name], { cwd: root, env: options.env });
    this.#shell.stdout!.setEncoding('utf8').on('data', (text) => {
      this.#output += text;
    });
    this.#shell.stderr!.setEncoding('utf8').on('data', (text) => {
      this.#errors += text;
    });
    // A shell that has ended is reported by `run`.
    this.#shell.stdin!.on('error', () => {});
    this.#shell.stdin!.write('set -euo pipefail\n');
  }

  /** Runs lines in its shell. @returns what they print @throws if one of them fails */
  async run(lines: string): Promise<string> {
    const file = path.join(this.#folder, 'block.sh');
    fs.writeFileSync(file, lines);
    this.#output = '';
    this.#errors = '';
    // A program that reads its input must not read the lines of the shell.
    this.#shell.stdin!.write(`. '${file}' < /dev/null; printf '${separator}'\n`);
    const hasEnded = () => this.#shell.exitCode !== null || this.#shell.signalCode !== null;
    await until(async () => this.#output.endsWith(separator) || hasEnded(), 120_000, 20);
    if (hasEnded()) throw new Error(`on ${this.name}:\n${lines}\n${this.#output}${this.#errors}\n${this.#logs()}`);
    return this.#output.slice(0, -separator.length);
  }

  /** Makes a server on loopback of the test's machine reachable at this machine's address. */
  async relay(port: number, target: string): Promise<TcpRelay> {
    const relay = await TcpRelay.open(target, await this.#listen(port));
    this.#relays.push(relay);
    return relay;
  }

  /** A server that listens in the machine's network. A program there opens it and passes it on. */
  async #listen(port: number): Promise<net.Server> {
    const open = `const server = require('node:net').createServer();
      server.listen(${port}, '${this.address}', () => process.send('listening', server, () => process.exit()));`;
    const words = [`--net=/run/netns/${this.#namespace}`, process.execPath, '--eval', open];
    const program = spawn('nsenter', words, {
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const [, server] = (await once(program, 'message')) as [string, net.Server];
    return server;
  }

  cut(): void {
    ip('-n', this.#namespace, 'link', 'set', 'eth0', 'down');
  }

  restore(): void {
    ip('-n', this.#namespace, 'link', 'set', 'eth0', 'up');
  }

  async stop(): Promise<void> {
    for (const relay of this.#relays) relay.close();
    if (this.#shell.exitCode !== null || this.#shell.signalCode !== null) return;
    const ended = once(this.#shell, 'exit');
    this.#shell.stdin!.end('set +e\nkill $(jobs -p) 2> /dev/null\nwait\n');
    await ended;
  }

  /** What the programs of all machines logged as warnings and errors. */
  #logs(): string {
    return fs
      .globSync(`${path.dirname(this.#folder)}/*/data/logs/*.log`)
      .map((file) => {
        const lines = fs.readFileSync(file, 'utf8').split('\n');
        const notable = lines.filter((line) => !/^{"level":[1-3]0,/.test(line));
        return `${file}:\n${notable.join('\n').slice(-4000)}`;
      })
      .join('\n');
  }
}

function ip(...words: string[]): string {
  return execFileSync('ip', words, { encoding: 'utf8' });
}
