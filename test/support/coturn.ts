import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

/** A real TURN server with time-limited credentials, and coturn's own client. */
export class Coturn {
  readonly address: string;
  readonly port: number;
  readonly #folder: string;
  readonly #child: ChildProcess;

  private constructor(address: string, port: number, folder: string, child: ChildProcess) {
    this.address = address;
    this.port = port;
    this.#folder = folder;
    this.#child = child;
  }

  /** @param address an address of this machine */
  static async start(address: string, secret: string): Promise<Coturn> {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-coturn-'));
    const port = await freePort();
    const settings = {
      'listening-ip': address,
      'relay-ip': address,
      'listening-port': port,
      realm: 'test',
      'static-auth-secret': secret,
      userdb: path.join(folder, 'users.sqlite'),
      pidfile: path.join(folder, 'pid'),
      'log-file': 'stdout',
    };
    const flags = ['use-auth-secret', 'fingerprint', 'no-tls', 'no-dtls', 'no-cli', 'simple-log'];
    const lines = [...Object.entries(settings).map(([name, value]) => `${name}=${value}`), ...flags];
    const file = path.join(folder, 'turnserver.conf');
    fs.writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
    const child = spawn('turnserver', ['-c', file], { stdio: 'ignore' });
    const server = new Coturn(address, port, folder, child);
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`turnserver ended with ${child.exitCode}`);
      return answersBinding(address, port);
    });
    return server;
  }

  /**
   * Makes allocations with the server's own client and sends through them.
   * @returns whether every message came through, and what the client said
   */
  relay(
    username: string,
    credential: string,
    transport: 'udp' | 'tcp' = 'udp',
  ): Promise<{ works: boolean; said: string }> {
    const words = ['-y', '-c', '-n', '2', '-m', '1', '-l', '100', '-u', username, '-w', credential];
    const args = [...(transport === 'tcp' ? ['-t'] : []), ...words, '-p', String(this.port), this.address];
    return new Promise((resolve) => {
      execFile('turnutils_uclient', args, { timeout: 30_000 }, (error, stdout, stderr) => {
        const said = `${stdout}${stderr}`;
        resolve({ works: !error && /Total lost packets 0 /.test(said), said });
      });
    });
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await ended;
    fs.rmSync(this.#folder, { recursive: true });
  }
}

/** An address of this machine by which other machines can reach it. */
export function ownAddress(): string {
  const found = Object.values(os.networkInterfaces())
    .flat()
    .find((each) => each?.family === 'IPv4' && !each.internal);
  if (!found) throw new Error('this machine has no IPv4 address of its own');
  return found.address;
}

/** Whether a STUN binding request is answered within 200 ms. */
function answersBinding(address: string, port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  return new Promise((resolve) => {
    const end = (answered: boolean) => {
      clearTimeout(late);
      socket.close();
      resolve(answered);
    };
    const late = setTimeout(() => end(false), 200);
    socket.once('message', () => end(true));
    socket.send(stunBindingRequest, port, address);
  });
}

/** Type, length, magic cookie, transaction. */
export const stunBindingRequest = Buffer.from('000100002112a442000102030405060708090a0b', 'hex');
