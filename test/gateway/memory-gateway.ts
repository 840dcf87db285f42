import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { GatewayLimits } from '../../gateway/connection-limits.ts';
import type { SandboxRoute } from '../../gateway/routes.ts';
import { heapFlags } from '../../platform/config/heap-limits.ts';
import { until } from '../support/until.ts';

/** The state of a serving process, as `memory-serving-process.ts` logs it. */
export interface ProcessState {
  pid: number;
  open: { connections: number; sandboxes: number; clients: number };
  /** Bytes in the JavaScript heap and in buffers. */
  liveBytes: number;
  /** The resident memory of the process, and the part of it that V8 and buffers use. */
  rss: number;
  heapTotal: number;
  arrayBuffers: number;
  external: number;
  /** The longest delay of its event loop since the previous log line. */
  longestDelayMs: number;
}

interface StartOptions {
  processes?: number;
  limits?: Partial<GatewayLimits>;
  /** Called when the primary has begun to start. */
  whileStarting?: (gateway: MemoryGateway) => Promise<void>;
}

/** A gateway of several processes, with routes in memory. */
export class MemoryGateway {
  readonly log: Record<string, unknown>[] = [];
  readonly dataDir = mkdtempSync(path.join(os.tmpdir(), 'memory-gateway-'));
  readonly #child: ChildProcess;

  private constructor(routes: Partial<SandboxRoute>[], processes: number, limits: Partial<GatewayLimits>) {
    // With the heap limits of production, which the serving processes inherit.
    const program = [
      ...heapFlags('gateway/server.ts', {}),
      path.join(import.meta.dirname, 'programs/memory-gateway.ts'),
    ];
    // Ends with this process, also if that crashes.
    this.#child = spawn('setpriv', ['--pdeathsig', 'KILL', process.execPath, ...program], {
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        GATEWAY_ROUTES: JSON.stringify(routes),
        GATEWAY_LIMITS: JSON.stringify(limits),
        GATEWAY_DATA_DIR: this.dataDir,
        GATEWAY_PROCESSES: String(processes),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface(this.#child.stdout!).on('line', (line) => this.log.push(JSON.parse(line)));
  }

  static async start(
    routes: Partial<SandboxRoute>[],
    { processes = 2, limits = {}, whileStarting }: StartOptions = {},
  ): Promise<MemoryGateway> {
    const gateway = new MemoryGateway(routes, processes, limits);
    await whileStarting?.(gateway);
    await until(() => gateway.lines('ready').length > 0);
    return gateway;
  }

  /** Its log lines with this message. */
  lines(message: string): Record<string, unknown>[] {
    return this.log.filter((line) => line.msg === message);
  }

  get port(): number {
    return this.lines('ready')[0]!.port as number;
  }

  /** The present serving processes. */
  get pids(): number[] {
    const { pid } = this.#child;
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  }

  /** The present memory of all its processes in bytes. */
  get memoryBytes(): number {
    return this.pids.map(residentBytes).reduce((sum, bytes) => sum + bytes, 0);
  }

  /** The open objects and live memory of each serving process, after a garbage collection. */
  async states(): Promise<ProcessState[]> {
    const { pids } = this;
    const known = this.lines('state').length;
    for (const pid of pids) process.kill(pid, 'SIGHUP');
    await until(() => this.lines('state').length >= known + pids.length);
    return this.lines('state').slice(known) as unknown as ProcessState[];
  }

  /** Ends only the primary, with SIGKILL. */
  killPrimary(): void {
    this.#child.kill('SIGKILL');
  }

  /** Stops it gracefully. Returns its exit code. */
  async stop(): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, 'exit');
      this.#child.kill('SIGTERM');
      await exited;
    }
    rmSync(this.dataDir, { recursive: true, force: true });
    return this.#child.exitCode;
  }
}

/** The number of open sockets of a process. */
export function countSockets(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:');
    } catch (error) {
      // It was closed since the listing.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }).length;
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(kilobytes?.[1] ?? 0) * 1024;
}
