import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { Certificate } from '../../gateway/listener.ts';
import { s3TestServer } from '../../ops/setup/toolchain/locations.mjs';
import type { OutsideNetwork } from '../runtime/outside-network.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

/** A server like public ones: it uses TLS, and the bucket's name precedes its own. */
interface Naming {
  domain: string;
  certificate: Certificate;
}

/** The keys of this process's servers. A scan for secrets also sees the processes of tests that run at the same time. */
const accessKey = `TESTACCESSKEY${randomBytes(4).toString('hex').toUpperCase()}`;
const secretKey = `test/secret+key=${randomBytes(4).toString('hex')}`;

/** A real S3 server that checks signatures and stores each object of a bucket as a file that tests can read. */
export class S3Server {
  readonly accessKey = accessKey;
  readonly secretKey = secretKey;
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 's3-server-'));
  #child: ChildProcess | null = null;
  #address = '127.0.0.1';
  port = 0;

  /** @param buckets its initial buckets */
  static async start(...buckets: string[]): Promise<S3Server> {
    return S3Server.#startAt({ address: '127.0.0.1', buckets });
  }

  /** The same on another address of this machine. */
  static async startOn(address: string, ...buckets: string[]): Promise<S3Server> {
    return S3Server.#startAt({ address, buckets });
  }

  /** The same on an address that is outside of this machine for sandboxes. */
  static async startIn(outside: OutsideNetwork, ...buckets: string[]): Promise<S3Server> {
    return S3Server.#startAt({ address: outside.far, outside, buckets });
  }

  /** The same, with a name. */
  static async startAs(named: Naming, outside: OutsideNetwork, ...buckets: string[]): Promise<S3Server> {
    return S3Server.#startAt({ address: outside.far, outside, named, buckets });
  }

  static async #startAt({
    address,
    outside,
    named,
    buckets,
  }: {
    address: string;
    outside?: OutsideNetwork;
    named?: Naming;
    buckets: string[];
  }): Promise<S3Server> {
    const server = new S3Server();
    for (const bucket of buckets) mkdirSync(path.join(server.#folder, bucket));
    server.#address = address;
    server.port = named ? 443 : await freePort();
    const words = [s3TestServer().program, '--port', `${address}:${server.port}`];
    if (named) {
      for (const part of ['cert', 'key'] as const) {
        const file = path.join(server.#folder, `${part}.pem`);
        writeFileSync(file, named.certificate[part]);
        words.push(`--${part}`, file);
      }
      words.push('--virtual-domain', named.domain);
    }
    words.push('posix', server.#folder);
    const [program, ...args] = outside ? outside.command(...words).flat() : words;
    server.#child = spawn(program!, args, {
      env: { PATH: process.env.PATH, ROOT_ACCESS_KEY: server.accessKey, ROOT_SECRET_KEY: server.secretKey },
      stdio: 'ignore',
    });
    await until(() => canConnect(server.port, address));
    return server;
  }

  get endpoint(): string {
    return `http://${this.#address}:${this.port}`;
  }

  /** A mount of `data` in the form that the API accepts. */
  mount(fields: Record<string, unknown> = {}): Record<string, unknown> {
    return {
      uri: 's3://data/',
      mount_point: '/mnt/data',
      endpoint: this.endpoint,
      region: 'us-east-1',
      access_key: this.accessKey,
      secret_key: this.secretKey,
      ...fields,
    };
  }

  /** The text of an object. */
  read(bucket: string, key: string): string {
    return readFileSync(path.join(this.#folder, bucket, key), 'utf8');
  }

  /** Stores an object without the protocol. */
  write(bucket: string, key: string, text: string): void {
    const file = path.join(this.#folder, bucket, key);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child && child.exitCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** A proxy before a server. It can stall: it then accepts connections and answers nothing. */
export class StallingProxy {
  readonly #server = net.createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<net.Socket>();
  readonly #targetPort: number;
  #stalled = false;

  readonly #address: string;

  private constructor(targetPort: number, address: string) {
    this.#targetPort = targetPort;
    this.#address = address;
  }

  /** @param address of the proxy and of the server */
  static async start(targetPort: number, address = '127.0.0.1'): Promise<StallingProxy> {
    const proxy = new StallingProxy(targetPort, address);
    await new Promise<void>((resolve) => proxy.#server.listen(0, address, resolve));
    return proxy;
  }

  get endpoint(): string {
    return `http://${this.#address}:${(this.#server.address() as AddressInfo).port}`;
  }

  stall(): void {
    this.#stalled = true;
    for (const socket of this.#sockets) socket.pause();
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: net.Socket): void {
    this.#keep(socket);
    if (this.#stalled) return;
    const target = net.connect(this.#targetPort, this.#address);
    this.#keep(target);
    socket.pipe(target).pipe(socket);
  }

  #keep(socket: net.Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#sockets.delete(socket));
  }
}

function canConnect(port: number, address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, address);
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
