import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { freePort } from '../../test/support/free-port.ts';
import { Connection } from './connection.ts';

const unaryHead = (method: string) =>
  `POST /sandboxagent.${method} HTTP/1.1\r\nContent-Type: application/json\r\nConnect-Protocol-Version: 1\r\n`;
const streamHead = (method: string, codec: string) =>
  `POST /sandboxagent.${method} HTTP/1.1\r\nContent-Type: application/connect+${codec}\r\nConnect-Protocol-Version: 1\r\n`;

/** A measured server: the agent or the floor. */
export class Subject {
  readonly name: 'agent' | 'floor';
  readonly #script: string;
  #child: ChildProcess | undefined;
  port = 0;

  constructor(name: 'agent' | 'floor') {
    this.name = name;
    const root = path.resolve(import.meta.dirname, '../..');
    this.#script =
      name === 'agent' ? path.join(root, 'agent/dist/agent.cjs') : path.join(import.meta.dirname, 'floor.cjs');
    if (!fs.existsSync(this.#script)) throw new Error(`no ${this.#script}: run node agent/build.mjs`);
  }

  /** Milliseconds from the start of its process to the first reply of `/health`. */
  async start(): Promise<number> {
    this.port = await freePort();
    const startedMs = performance.now();
    const child = spawn(process.execPath, [this.#script], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { PATH: process.env.PATH, HOME: '/', AGENT_PORT: String(this.port), AGENT_LISTEN: '127.0.0.1' },
    });
    this.#child = child;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`${this.name} ended with ${child.exitCode}`);
      try {
        const connection = await Connection.open(this.port);
        await connection.request('GET /health HTTP/1.1\r\n', undefined);
        connection.close();
        return performance.now() - startedMs;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  }

  async stop(): Promise<void> {
    if (!this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }

  /** Private memory, MiB. */
  privateMib(): number {
    const rollup = fs.readFileSync(`/proc/${this.#child!.pid}/smaps_rollup`, 'latin1');
    const kib = [...rollup.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+)/gm)].map(([, number]) => Number(number));
    return kib.reduce((sum, number) => sum + number, 0) / 1024;
  }

  unary(connection: Connection, method: string, message: object): Promise<Buffer> {
    return connection.request(unaryHead(method), Buffer.from(JSON.stringify(message)));
  }

  /** Sends one message and passes on the reply, including frame heads. */
  stream(connection: Connection, method: string, message: Buffer, codec: string, onBytes: (bytes: Buffer) => void) {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    return connection.request(streamHead(method, codec), Buffer.concat([head, message]), onBytes);
  }
}
