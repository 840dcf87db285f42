import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from '../../test/support/free-port.ts';
import { cpuMsOf } from '../process-cpu.ts';

/**
 * The gateway beside a direct connection and a bare node:http proxy, all to the same real agent, in turns so that what
 * else the machine does meets all of them. `node bench/gateway/run.ts [rounds]`
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 9);
const latencyRequests = 1500;
const throughputConnections = 32;
const throughputRequests = 6000;
const fileBytes = 256 * 1024 * 1024;
const sandboxHost = 'sbx-bench.sandbox.localhost';
const ways = ['direct', 'bare', 'gateway'] as const;
const here = import.meta.dirname;
const root = path.join(here, '../..');

class Samples {
  readonly #byName = new Map<string, number[]>();

  add(name: string, value: number): void {
    this.#byName.set(name, [...(this.#byName.get(name) ?? []), value]);
  }

  median(name: string): number {
    return medianOf(this.#byName.get(name)!);
  }

  best(name: string): number {
    return Math.max(...this.#byName.get(name)!);
  }

  /** The median of the rounds' ratios: within a round the machine was as busy for the one as for the other. */
  ratio(name: string, to: string): number {
    const others = this.#byName.get(to)!;
    return medianOf(this.#byName.get(name)!.map((value, round) => value / others[round]!));
  }
}

/** CPU seconds that each process with a part in a download spends on a GiB, over some downloads one after the other. */
class DownloadCosts {
  readonly #pids: Record<string, number>;
  readonly #measured: Record<string, number>[] = [];

  constructor(pids: Record<string, number>) {
    this.#pids = pids;
  }

  async measure(downloads: number, work: () => Promise<void>): Promise<void> {
    const before = this.#cpuMs();
    for (let i = 0; i < downloads; i++) await work();
    const bytes = downloads * fileBytes;
    const seconds = this.#cpuMs().map(([name, ms], index) => [
      name,
      (ms - before[index]![1]) / 1000 / (bytes / 1024 ** 3),
    ]);
    this.#measured.push(Object.fromEntries(seconds));
  }

  /** What else runs can only make it dearer. */
  get cheapest(): Record<string, number> {
    return this.#measured.reduce((least, each) => (sumOf(each) < sumOf(least) ? each : least));
  }

  /** The least seconds that a GiB can take: each process is one thread, and so many cores are there for all of them. */
  get leastSeconds(): number {
    return Math.max(...Object.values(this.cheapest), sumOf(this.cheapest) / os.availableParallelism());
  }

  #cpuMs(): [name: string, ms: number][] {
    return Object.entries(this.#pids).map(([name, pid]) => [name, cpuMsOf(pid)]);
  }
}

const sumOf = (costs: Record<string, number>) => Object.values(costs).reduce((sum, each) => sum + each, 0);

const children: ChildProcess[] = [];
const dir = mkdtempSync(path.join(os.tmpdir(), 'bench-gateway-file-'));
try {
  const file = path.join(dir, 'file.bin');
  writeFileSync(file, Buffer.alloc(fileBytes, 7));
  const agent = await startAgent();
  const [bare, gateway] = [
    await startProxy('bare-proxy.ts', agent.port),
    await startProxy('one-sandbox-gateway.ts', agent.port),
  ];
  const targets = { direct: agent.port, bare: bare.port, gateway: gateway.port };
  const ends = { agent: agent.pid, client: process.pid };
  const costs = {
    direct: new DownloadCosts(ends),
    bare: new DownloadCosts({ ...ends, proxy: bare.pid }),
    gateway: new DownloadCosts({ ...ends, gateway: gateway.pid }),
  };
  const samples = { latencyMs: new Samples(), requestsPerSecond: new Samples(), downloadMiBPerSecond: new Samples() };
  for (const port of Object.values(targets)) await throughput(port, throughputRequests);
  for (let round = 0; round < rounds; round++) {
    for (const name of ways) {
      const port = targets[name];
      samples.latencyMs.add(name, await latencyP50(port));
      samples.requestsPerSecond.add(name, await throughput(port, throughputRequests));
      await costs[name].measure(3, async () => {
        samples.downloadMiBPerSecond.add(name, await download(port, `/download${file}`));
      });
    }
    process.stderr.write(`round ${round + 1} of ${rounds}\n`);
  }
  report(samples, costs);
} finally {
  for (const child of children) child.kill('SIGTERM');
  rmSync(dir, { recursive: true });
}

function report(
  samples: Record<'latencyMs' | 'requestsPerSecond' | 'downloadMiBPerSecond', Samples>,
  costs: Record<(typeof ways)[number], DownloadCosts>,
): void {
  const { latencyMs, requestsPerSecond, downloadMiBPerSecond } = samples;
  console.table(
    ways.map((name) => ({
      name,
      'p50 ms': Number(latencyMs.median(name).toFixed(4)),
      'requests/s': Math.round(requestsPerSecond.median(name)),
      '256 MiB, MiB/s': Math.round(downloadMiBPerSecond.median(name)),
      best: Math.round(downloadMiBPerSecond.best(name)),
    })),
  );
  const hop = latencyMs.ratio('gateway', 'bare');
  const rate = requestsPerSecond.ratio('gateway', 'bare');
  // Three busy processes on few cores: what else runs can only slow them down, so the best round counts.
  const bytes = downloadMiBPerSecond.best('gateway') / downloadMiBPerSecond.best('direct');
  console.log(`p50 ÷ (direct + one bare hop)    ${hop.toFixed(2)}   goal ≤ 1.00   ${verdict(hop <= 1)}`);
  console.log(`requests/s ÷ bare proxy's        ${rate.toFixed(2)}   goal ≥ 0.80   ${verdict(rate >= 0.8)}`);
  console.log(`256 MiB speed ÷ the agent's own  ${bytes.toFixed(2)}   goal ≥ 0.80   ${verdict(bytes >= 0.8)}`);
  const most = costs.direct.leastSeconds / costs.gateway.leastSeconds;
  console.log(
    `  … what ${os.availableParallelism()} cores allow of it      ${most.toFixed(2)}   by what a GiB costs, in CPU seconds:`,
  );
  for (const name of ways) {
    const parts = Object.entries(costs[name].cheapest).map(([part, seconds]) => `${part} ${seconds.toFixed(2)}`);
    console.log(`    ${name.padEnd(8)} ${parts.join(', ')}`);
  }
}

function verdict(isMet: boolean): string {
  return isMet ? 'met' : 'MISSED';
}

function medianOf(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** The bundled agent as a host starts it, on loopback and open. */
async function startAgent(): Promise<{ port: number; pid: number }> {
  const agent = path.join(root, 'agent/dist/agent.cjs');
  if (!existsSync(agent)) throw new Error('build the agent first: node agent/build.mjs');
  const port = await freePort();
  const child = spawn(process.execPath, [agent], {
    env: { PATH: process.env.PATH, HOME: dir, AGENT_PORT: String(port), AGENT_LISTEN: '127.0.0.1' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  children.push(child);
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

async function startProxy(script: string, agentPort: number): Promise<{ port: number; pid: number }> {
  const child = spawn(process.execPath, [path.join(here, script), String(agentPort)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [line] = await once(createInterface(child.stdout!), 'line');
  return { port: Number(line), pid: child.pid! };
}

/** Sends `/health` again and again on one connection; `onReply` returns whether to go on. */
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

async function latencyP50(port: number): Promise<number> {
  const times: number[] = [];
  let sentAt = performance.now();
  await healthLoop(port, () => {
    const now = performance.now();
    times.push(now - sentAt);
    sentAt = now;
    return times.length < latencyRequests;
  });
  return medianOf(times);
}

async function throughput(port: number, requests: number): Promise<number> {
  let sent = throughputConnections;
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: throughputConnections }, () => healthLoop(port, () => sent++ < requests)));
  return (requests / (performance.now() - startedAt)) * 1000;
}

/** MiB a second of one download, read as cheaply as Node can. */
function download(port: number, target: string): Promise<number> {
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
