import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { MemoryGateway } from '../memory-gateway.ts';
import { hostOf } from '../started-gateway.ts';
import { CLIENT_KINDS, type ClientKind, HostileClients } from './clients.ts';
import { SeededRandom } from './random.ts';
import { callOf, startCallUpstream, startReplyUpstream } from './upstreams.ts';

export interface CampaignOptions {
  /** Hostile replies in all; as many plain ones are played beside them. */
  rounds: number;
  seed: number;
  /** Rounds of one kind before the other kind has its turn. */
  blockRounds: number;
  concurrency: number;
}

export interface CampaignResult {
  /** By kind of client and how its hostile rounds ended: how many. */
  ends: Record<string, Record<string, number>>;
  hangs: { kind: ClientKind; mode: string; seed: number }[];
  /** Processes of the gateway that ended. */
  exits: number;
  /** Exceptions that the boundary of an exchange or a connection caught. */
  faults: unknown[];
  /** Latencies of the second tenant, milliseconds. */
  p99Ms: { hostile: number; plain: number };
  samples: { hostile: number; plain: number };
  memoryBytes: number;
}

/** Plays hostile and plain replies in turns through a gateway of two processes, beside a second tenant. */
export async function playCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { rounds, seed, blockRounds, concurrency } = options;
  const seeds = new SeededRandom(seed);
  let mode: 'hostile' | 'plain' = 'plain';
  const replies = await startReplyUpstream();
  const calls = await startCallUpstream((streamId) => {
    const random = new SeededRandom(seeds.below(2 ** 32));
    return { reply: callOf(mode, random, streamId), random, ends: mode === 'hostile' };
  });
  const second = await SecondTenant.start();
  const gateway = await MemoryGateway.start([
    { sandboxId: 'sbx-http', agentPort: replies.port },
    { sandboxId: 'sbx-grpc', agentPort: calls.port },
    { sandboxId: 'sbx-second', agentPort: second.port },
  ]);
  const clients = new HostileClients(gateway.port, hostOf('sbx-http'), hostOf('sbx-grpc'));
  const pids = gateway.pids;
  const result: CampaignResult = {
    ends: {},
    hangs: [],
    exits: 0,
    faults: [],
    p99Ms: { hostile: 0, plain: 0 },
    samples: { hostile: 0, plain: 0 },
    memoryBytes: 0,
  };

  const playRound = async () => {
    const roundSeed = seeds.below(2 ** 32);
    const random = new SeededRandom(roundSeed);
    const kind = random.pick(CLIENT_KINDS);
    const end = await clients.play(kind, `/${mode}/${roundSeed}`, random);
    if (end === 'hang') result.hangs.push({ kind, mode, seed: roundSeed });
    if (mode !== 'hostile') return;
    result.ends[kind] ??= {};
    result.ends[kind][end] = (result.ends[kind][end] ?? 0) + 1;
  };
  const playBlock = async (count: number) => {
    let left = count;
    const worker = async () => {
      while (left-- > 0) await playRound();
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
  };

  try {
    await second.begin(gateway.port);
    // Neither kind pays for what a first request of a process costs.
    await playBlock(Math.min(blockRounds, 200));
    for (let played = 0; played < rounds; played += blockRounds) {
      const order = seeds.chance(0.5) ? (['hostile', 'plain'] as const) : (['plain', 'hostile'] as const);
      for (mode of order) {
        second.label(mode);
        await playBlock(Math.min(blockRounds, rounds - played));
        second.label(null);
      }
      result.memoryBytes = Math.max(result.memoryBytes, gateway.memoryBytes);
      result.exits = gateway.lines('a gateway process ended').length;
    }
    const samples = await second.finish();
    for (const kind of ['hostile', 'plain'] as const) {
      result.samples[kind] = samples[kind].length;
      result.p99Ms[kind] = p99(samples[kind]);
    }
    if (result.exits === 0 && gateway.pids.join() !== pids.join()) result.exits = 1;
    result.faults = [...gateway.lines('exchange failed'), ...gateway.lines('connection failed')];
    return result;
  } finally {
    clients.close();
    second.kill();
    await gateway.stop();
    await Promise.all([replies.stop(), calls.stop()]);
  }
}

/** A client and a server of another sandbox, in a process of their own. */
class SecondTenant {
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(): Promise<SecondTenant> {
    const child = fork(path.join(import.meta.dirname, '../programs/second-tenant.ts'), {
      env: { ...process.env, NODE_OPTIONS: '' },
      execArgv: [],
    });
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    return new SecondTenant(child, port);
  }

  async begin(gatewayPort: number): Promise<void> {
    this.#child.send({ gatewayPort });
    await once(this.#child, 'message');
  }

  /** Under what it measures from now on; null: not at all. */
  label(label: string | null): void {
    this.#child.send({ label });
  }

  async finish(): Promise<Record<'hostile' | 'plain', number[]>> {
    this.#child.send({ finish: true });
    const [samples] = await once(this.#child, 'message');
    return samples as Record<'hostile' | 'plain', number[]>;
  }

  kill(): void {
    if (this.#child.connected) this.#child.disconnect();
    this.#child.kill('SIGKILL');
  }
}

function p99(samples: number[]): number {
  return samples.sort((a, b) => a - b)[Math.floor(samples.length * 0.99)]!;
}
