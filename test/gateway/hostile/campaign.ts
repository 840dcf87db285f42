import { setTimeout as delay } from 'node:timers/promises';
import { readCpuMs } from '../../../bench/process-cpu.ts';
import { countSockets, MemoryGateway, type ProcessState } from '../memory-gateway.ts';
import { SecondTenant } from '../second-tenant.ts';
import { formatHost } from '../started-gateway.ts';
import { type ClientKind, clientKinds, HostileClients } from './clients.ts';
import { SeededRandom } from './random.ts';
import { createCall, startCallUpstream, startReplyUpstream } from './upstreams.ts';

export interface CampaignOptions {
  /** The number of hostile replies. The same number of plain ones is played in between. */
  rounds: number;
  seed: number;
  /** Rounds of one kind before the next block of the other kind. */
  blockRounds: number;
  concurrency: number;
}

export interface CampaignResult {
  /** By kind of client and end of its hostile rounds: the number of rounds. */
  ends: Record<string, Record<string, number>>;
  hangs: { kind: ClientKind; mode: string; seed: number }[];
  /** Processes of the gateway that ended. */
  exits: number;
  /** Exceptions that reached the outermost handler of an exchange or a connection. */
  faults: unknown[];
  /** Latencies of the second tenant, in milliseconds. */
  p99Ms: { hostile: number; plain: number };
  samples: { hostile: number; plain: number };
  /** Resident memory of all serving processes: the maximum after any block. */
  memoryBytes: number;
  /** Their live memory (JavaScript heap and buffers, after a collection): after the first tenth, and at the end. */
  liveBytes: { afterTenth: number; atEnd: number };
  /** The parts of the memory of each serving process at the end, in bytes. */
  parts: Pick<ProcessState, 'rss' | 'heapTotal' | 'external' | 'arrayBuffers'>[];
  /** After the end of every client and every server. */
  afterwards: {
    /** Processor time of the serving processes over two seconds. `idle` is the same before the campaign. */
    cpuMs: number;
    idleCpuMs: number;
    /** Sockets beyond those of a gateway that has served no client. */
    sockets: number;
    /** The counts of open objects that each process reports. */
    open: ProcessState['open'][];
  };
}

const cpuWindowMs = 2000;
/** The time in which connections must end after both sides have left. */
const closeTimeoutMs = 45_000;

/** Alternates hostile and plain replies through a gateway of two processes, with a second tenant. */
export async function playCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { rounds, seed, blockRounds, concurrency } = options;
  const seeds = new SeededRandom(seed);
  let mode: 'hostile' | 'plain' = 'plain';
  const replies = await startReplyUpstream();
  const calls = await startCallUpstream((streamId) => {
    const random = new SeededRandom(seeds.below(2 ** 32));
    return { reply: createCall(mode, random, streamId), random, ends: mode === 'hostile' };
  });
  const second = await SecondTenant.start();
  const gateway = await MemoryGateway.start([
    { sandboxId: 'sbx-http', agentPort: replies.port },
    { sandboxId: 'sbx-grpc', agentPort: calls.port },
    { sandboxId: 'sbx-second', agentPort: second.port },
  ]);
  const clients = new HostileClients(gateway.port, formatHost('sbx-http'), formatHost('sbx-grpc'));
  const pids = gateway.pids;
  const result: CampaignResult = {
    ends: {},
    hangs: [],
    exits: 0,
    faults: [],
    p99Ms: { hostile: 0, plain: 0 },
    samples: { hostile: 0, plain: 0 },
    memoryBytes: 0,
    liveBytes: { afterTenth: 0, atEnd: 0 },
    parts: [],
    afterwards: { cpuMs: 0, idleCpuMs: await cpuMsIn(cpuWindowMs, gateway), sockets: 0, open: [] },
  };
  const socketsBefore = socketCount(gateway);

  const playRound = async () => {
    const roundSeed = seeds.below(2 ** 32);
    const random = new SeededRandom(roundSeed);
    const kind = random.pick(clientKinds);
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
    // Without these rounds, the first block would pay for the first requests of the processes.
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
      if (result.liveBytes.afterTenth === 0 && played + blockRounds >= rounds / 10) {
        result.liveBytes.afterTenth = await sumLiveBytes(gateway);
      }
    }
    const states = await gateway.states();
    result.liveBytes.atEnd = states.reduce((sum, { liveBytes }) => sum + liveBytes, 0);
    result.parts = states.map(({ rss, heapTotal, external, arrayBuffers }) => ({
      rss,
      heapTotal,
      external,
      arrayBuffers,
    }));
    const samples = await second.finish();
    for (const kind of ['hostile', 'plain'] as const) {
      result.samples[kind] = samples[kind].length;
      result.p99Ms[kind] = p99(samples[kind]);
    }
    if (result.exits === 0 && gateway.pids.join() !== pids.join()) result.exits = 1;
    result.faults = [...gateway.lines('exchange failed'), ...gateway.lines('connection failed')];

    clients.close();
    second.kill();
    await Promise.all([replies.stop(), calls.stop()]);
    const { afterwards } = result;
    const deadline = performance.now() + closeTimeoutMs;
    do {
      await delay(100);
      afterwards.sockets = socketCount(gateway) - socketsBefore;
    } while (afterwards.sockets > 0 && performance.now() < deadline);
    afterwards.open = (await gateway.states()).map(({ open }) => open);
    // Garbage collections may still run. An endless exchange never ends.
    const idleDeadline = performance.now() + closeTimeoutMs;
    do {
      afterwards.cpuMs = await cpuMsIn(cpuWindowMs, gateway);
    } while (afterwards.cpuMs > maxCpuMs(afterwards) && performance.now() < idleDeadline);
    return result;
  } finally {
    clients.close();
    second.kill();
    await gateway.stop();
    await Promise.all([replies.stop(), calls.stop()]);
  }
}

/** An idle gateway's timers need a few milliseconds. An endless exchange uses all of a processor. */
export function maxCpuMs({ idleCpuMs }: Pick<CampaignResult['afterwards'], 'idleCpuMs'>): number {
  return Math.max(60, 3 * idleCpuMs);
}

function socketCount(gateway: MemoryGateway): number {
  return gateway.pids.map(countSockets).reduce((sum, count) => sum + count, 0);
}

async function sumLiveBytes(gateway: MemoryGateway): Promise<number> {
  return (await gateway.states()).reduce((sum, { liveBytes }) => sum + liveBytes, 0);
}

/** Processor time that the serving processes use within so many milliseconds. */
async function cpuMsIn(windowMs: number, gateway: MemoryGateway): Promise<number> {
  const sum = () => gateway.pids.map(readCpuMs).reduce((total, ms) => total + ms, 0);
  const before = sum();
  await delay(windowMs);
  return sum() - before;
}

function p99(samples: number[]): number {
  return samples.sort((a, b) => a - b)[Math.floor(samples.length * 0.99)]!;
}
