import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from '../../test/support/free-port.ts';

/** The measurements of an agent over several ways, made alternately, and the processes on these ways. */
const latencyRequests = 1500;
const throughputConnections = 32;
export const throughputRequests = 6000;
export const fileBytes = 256 * 1024 * 1024;
const sandboxHost = 'sbx-bench.sandbox.localhost';
const root = path.join(import.meta.dirname, '../..');

export class Samples {
  readonly #byName = new Map<string, number[]>();

  add(name: string, value: number): void {
    this.#byName.set(name, [...(this.#byName.get(name) ?? []), value]);
  }

  median(name: string): number {
    return computeMedian(this.#byName.get(name)!);
  }

  best(name: string): number {
    return Math.max(...this.#byName.get(name)!);
  }

  /** The median of the rounds' ratios, because within a round the machine's load is the same for both. */
  ratio(name: string, to: string): number {
    const others = this.#byName.get(to)!;
    return computeMedian(this.#byName.get(name)!.map((value, round) => value / others[round]!));
  }
}

/** The programs of a bench, and a folder with a file to download. */
export class BenchProcesses {
  readonly dir = mkdtempSync(path.join(os.tmpdir(), 'bench-gateway-file-'));
  readonly file = path.join(this.dir, 'file.bin');
  readonly #children: ChildProcess[] = [];

  constructor() {
    writeFileSync(this.file, Buffer.alloc(fileBytes, 7));
  }

  /** The bundled agent as a host starts it, but on loopback and without a token. */
  async startAgent(): Promise<{ port: number; pid: number }> {
    const agent = path.join(root, 'agent/dist/agent.cjs');
    if (!existsSync(agent)) throw new Error('build the agent first: node agent/build.mjs');
    const port = await freePort();
    const child = spawn(process.execPath, [agent], {
      env: { PATH: process.env.PATH, HOME: this.dir, AGENT_PORT: String(port), AGENT_LISTEN: '127.0.0.1' },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    this.#children.push(child);
    for (;;) {
      if (child.exitCode !== null) throw new Error('the agent did not start');
      const socket = net.connect(port, '127.0.0.1');
      const isUp = await Promise.race([
        once(socket, 'connect').then(() => true),
        once(socket, 'close').then(() => false),
      ]).catch(() => false);
      socket.destroy();
      if (isUp) return { port, pid: child.pid! };
    }
  }

  /** A program of the bench. It prints its port. */
  async start(script: string, ...args: readonly string[]): Promise<{ port: number; pid: number }> {
    const child = spawn(process.execPath, [script, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#children.push(child);
    const [line] = await once(createInterface(child.stdout!), 'line');
    return { port: Number(line), pid: child.pid! };
  }

  stop(): void {
    for (const child of this.#children) child.kill('SIGTERM');
    rmSync(this.dir, { recursive: true });
  }
}

export function computeMedian(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** Repeats requests of `/health` on one connection. `onReply` returns whether to continue. */
function healthLoop(port: number, onReply: () => boolean): Promise<void> {
  const request = `GET /health HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`;
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('error', reject);
    socket.on('data', (bytes) => {
      // The body is "OK", and it comes last.
      if (bytes.at(-1) !== 75 || bytes.at(-2) !== 79) return;
      if (onReply()) socket.write(request, 'latin1');
      else {
        socket.destroy();
        resolve();
      }
    });
    socket.write(request, 'latin1');
  });
}

/** Milliseconds. */
export async function latencyP50(port: number): Promise<number> {
  const times: number[] = [];
  let sentAt = performance.now();
  await healthLoop(port, () => {
    const now = performance.now();
    times.push(now - sentAt);
    sentAt = now;
    return times.length < latencyRequests;
  });
  return computeMedian(times);
}

/** Requests per second. */
export async function throughput(port: number, requests: number): Promise<number> {
  let sent = throughputConnections;
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: throughputConnections }, () => healthLoop(port, () => sent++ < requests)));
  return (requests / (performance.now() - startedAt)) * 1000;
}

/** MiB per second of one download, read as cheaply as Node can. */
export function download(port: number, target: string): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    let received = 0;
    const socket = net.connect({
      port,
      host: '127.0.0.1',
      onread: {
        buffer: Buffer.allocUnsafe(1024 * 1024),
        callback: (length, buffer) => {
          if (received === 0 && !Buffer.from(buffer).toString('latin1', 0, 12).endsWith('200')) {
            reject(new Error(Buffer.from(buffer).toString('latin1', 0, length)));
          }
          received += length;
          if (received >= fileBytes) {
            socket.destroy();
            resolve((fileBytes / 1024 / 1024 / (performance.now() - startedAt)) * 1000);
          }
          return true;
        },
      },
    });
    socket.on('error', reject);
    socket.write(`GET ${target} HTTP/1.1\r\nHost: ${sandboxHost}\r\n\r\n`, 'latin1');
  });
}
