import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { ChildProgram } from '../../ops/local-stack/embedded/child-program.ts';
import { readLogLine } from '../../ops/local-stack/supervisor/log-line.ts';
import { type FaultyPlatform, type RunningPart, removeHost } from './faulty-platform.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** A fresh view of the kernel's devices for a network namespace, with the control groups where they were. */
const ownSys = `set -e
kept=$(mktemp -d)
mount --rbind /sys/fs/cgroup "$kept"
umount -R -l /sys
mount -t sysfs sysfs /sys
mount --rbind "$kept" /sys/fs/cgroup
umount -R -l "$kept"
rmdir "$kept"
exec "$@"`;

/**
 * Another host of a platform, in a network namespace: it reaches Postgres and Temporal over one link, which can be cut.
 * Its region is `far`.
 */
export class FarHost {
  readonly dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-far-host-'));
  readonly namespace: string;
  readonly #platform: FaultyPlatform;
  readonly #link: string;
  readonly #address: string;
  readonly #relays: net.Server[] = [];

  private constructor(platform: FaultyPlatform) {
    this.#platform = platform;
    const number = process.pid % 4096;
    this.namespace = `far-${process.pid}`;
    this.#link = `far${number}`;
    this.#address = `10.254.${number >> 6}.${(number & 63) * 4 + 1}`;
  }

  /** Adds the part `far-host` to the platform and starts it. */
  static async start(platform: FaultyPlatform): Promise<FarHost> {
    const host = new FarHost(platform);
    host.#makeNetwork();
    const database = new URL(platform.settings.DATABASE_URL);
    const [temporalHost, temporalPort] = platform.settings.TEMPORAL_ADDRESS.split(':');
    const databasePort = await host.#relay(database.hostname, Number(database.port));
    database.host = `${host.#address}:${databasePort}`;
    const env = {
      ...platform.env,
      DATABASE_URL: database.href,
      TEMPORAL_ADDRESS: `${host.#address}:${await host.#relay(temporalHost!, Number(temporalPort))}`,
      PLATFORM_DATA_DIR: host.dataDir,
      PLATFORM_REGION: 'far',
      PLATFORM_REGION_NAME: 'Far',
    };
    platform.addPart('far-host', () => host.#startWorker(env));
    await platform.up('far-host');
    return host;
  }

  /** From now on nothing that is sent arrives, in either direction. */
  cut(): void {
    run('ip', 'link', 'set', this.#link, 'down');
  }

  restore(): void {
    run('ip', 'link', 'set', this.#link, 'up');
  }

  /** Whether all its sandboxes stand still. */
  get isFenced(): boolean {
    return isFenced(this.dataDir);
  }

  /** Sandboxes' links in its namespace. */
  veths(): string[] {
    const links = JSON.parse(run('ip', '-n', this.namespace, '-json', 'link', 'show')) as { ifname: string }[];
    return links.map((each) => each.ifname).filter((name) => /^sb[0-9a-f]+-/.test(name));
  }

  async close(): Promise<void> {
    for (const relay of this.#relays) relay.close();
    run('ip', 'netns', 'delete', this.namespace);
    await removeHost(this.dataDir);
  }

  #makeNetwork(): void {
    const inside = this.#address.replace(/\d+$/, (last) => String(Number(last) + 1));
    run('ip', 'netns', 'add', this.namespace);
    run('ip', 'link', 'add', this.#link, 'type', 'veth', 'peer', 'name', 'up0', 'netns', this.namespace);
    run('ip', 'address', 'add', `${this.#address}/30`, 'dev', this.#link);
    run('ip', 'link', 'set', this.#link, 'up');
    run('ip', '-n', this.namespace, 'link', 'set', 'lo', 'up');
    run('ip', '-n', this.namespace, 'address', 'add', `${inside}/30`, 'dev', 'up0');
    run('ip', '-n', this.namespace, 'link', 'set', 'up0', 'up');
    run('ip', '-n', this.namespace, 'route', 'add', 'default', 'via', this.#address);
  }

  /** What listens on loopback only, at this host's end of the link. @returns the port */
  async #relay(host: string, port: number): Promise<number> {
    const server = net.createServer((from) => {
      const to = net.connect(port, host);
      from.pipe(to).pipe(from);
      from.on('error', () => to.destroy());
      to.on('error', () => from.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, this.#address, resolve));
    // Connections that the cut left hanging must not keep the test's process.
    server.unref();
    server.on('connection', (socket) => socket.unref());
    this.#relays.push(server);
    return (server.address() as net.AddressInfo).port;
  }

  async #startWorker(env: NodeJS.ProcessEnv): Promise<RunningPart> {
    const ready = Promise.withResolvers<void>();
    const words = [`--net=/run/netns/${this.namespace}`, 'unshare', '--mount', 'sh', '-c', ownSys, 'sh'];
    const program = await ChildProgram.start({
      name: 'far-host',
      command: 'nsenter',
      args: [...words, process.execPath, path.join(root, 'worker/host.ts')],
      env,
      home: { logDir: this.#platform.logDir },
      stopTimeoutMs: 20_000,
      onLine: (line) => {
        if (readLogLine(line)?.isReady) ready.resolve();
      },
    });
    await program.whenReady(() => ready.promise);
    return program;
  }
}

/** Whether the sandboxes of the host with this data folder stand still, as the kernel has it. */
export function isFenced(dataDir: string): boolean {
  const { id } = JSON.parse(fs.readFileSync(path.join(dataDir, 'oci/copy.json'), 'utf8')) as { id: string };
  const first = `/sys/fs/cgroup/freezer/sandboxes-${id}/freezer.state`;
  if (fs.existsSync(first)) return fs.readFileSync(first, 'utf8').trim() === 'FROZEN';
  return fs.readFileSync(`/sys/fs/cgroup/sandboxes-${id}/cgroup.events`, 'utf8').includes('frozen 1');
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8' });
}
