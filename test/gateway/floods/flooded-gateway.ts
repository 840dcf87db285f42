import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { GatewayLimits } from '../../../gateway/connection-limits.ts';
import { MemoryGateway } from '../memory-gateway.ts';
import { SecondTenant } from '../second-tenant.ts';

const sampleIntervalMs = 25;

export interface FloodResult {
  /** Resident memory of the gateway's process: before all floods, and the maximum during this one. */
  rssBytes: { before: number; most: number };
  /** The longest delay of the gateway's event loop during the flood. */
  longestDelayMs: number;
  /** Connections of the flood that the gateway closed. */
  closed: number;
  bytesSent: number;
  /** Processes of the gateway that ended. */
  exits: number;
}

/** Latencies of another tenant, milliseconds. */
export interface SecondTenantLatencies {
  before: number[];
  during: number[];
}

/** A gateway of one process, the sandboxes of `flooded-sandboxes.ts` and another tenant, each in its own process. */
export class FloodedGateway {
  readonly #children: ChildProcess[];
  readonly #gateway: MemoryGateway;
  readonly #second: SecondTenant;
  readonly #rssBefore: number;

  private constructor(children: ChildProcess[], gateway: MemoryGateway, second: SecondTenant, rssBefore: number) {
    this.#children = children;
    this.#gateway = gateway;
    this.#second = second;
    this.#rssBefore = rssBefore;
  }

  static async start(limits: Partial<GatewayLimits> = {}): Promise<FloodedGateway> {
    const sandboxes = startProgram('flooded-sandboxes.ts');
    const [[routes], second] = await Promise.all([once(sandboxes, 'message'), SecondTenant.start()]);
    const gateway = await MemoryGateway.start([...routes, { sandboxId: 'sbx-second', agentPort: second.port }], {
      processes: 1,
      limits,
    });
    const [idle] = await gateway.states();
    return new FloodedGateway([sandboxes], gateway, second, idle!.rss);
  }

  /** Runs a flood. */
  async play(name: string, durationMs: number): Promise<FloodResult> {
    const gateway = this.#gateway;
    const exitsBefore = this.#exits;
    const flood = startProgram('flood.ts', name, String(gateway.port));
    this.#children.push(flood);
    await once(flood, 'message');
    flood.send('start');
    let most = 0;
    for (const endsAt = performance.now() + durationMs; performance.now() < endsAt; await delay(sampleIntervalMs)) {
      most = Math.max(most, gateway.memoryBytes);
    }
    flood.send('stop');
    const [{ closed, bytesSent }] = await once(flood, 'message');
    const [state] = await gateway.states();
    return {
      rssBytes: { before: this.#rssBefore, most },
      longestDelayMs: state!.longestDelayMs,
      closed,
      bytesSent,
      exits: this.#exits - exitsBefore,
    };
  }

  /** Runs a flood and measures another tenant during it, and before it for half as long. May be called once. */
  async playBesideSecondTenant(
    name: string,
    durationMs: number,
  ): Promise<FloodResult & { secondTenantMs: SecondTenantLatencies }> {
    const second = this.#second;
    await second.begin(this.#gateway.port);
    second.label('plain');
    await delay(durationMs / 2);
    second.label('hostile');
    const result = await this.play(name, durationMs);
    second.label(null);
    const samples = await second.finish();
    return { ...result, secondTenantMs: { before: samples.plain, during: samples.hostile } };
  }

  async stop(): Promise<void> {
    for (const child of this.#children) if (child.connected) child.disconnect();
    this.#second.kill();
    // Without a graceful end: it does not notice that clients have left whose bodies it has stopped reading.
    this.#gateway.killPrimary();
    await this.#gateway.stop();
  }

  get #exits(): number {
    return this.#gateway.lines('a gateway process ended').length;
  }
}

function startProgram(program: string, ...args: string[]): ChildProcess {
  return fork(path.join(import.meta.dirname, '../programs', program), args, {
    env: { ...process.env, NODE_OPTIONS: '' },
    execArgv: [],
  });
}
