import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import type { SandboxId } from '../../domain/ids.ts';
import { openTunnel } from '../../gateway/last-hop/tunnel.ts';
import {
  BenchProcesses,
  computeMedian,
  download,
  latencyP50,
  Samples,
  throughput,
  throughputRequests,
} from '../gateway/load.ts';
import { benchHostId, tunnelsThrough } from './credentials.ts';

/**
 * The cost of a sandbox on another machine: compares a gateway that reaches the agent through the last hop of its host
 * with one that connects to it directly, alternately. Both machines are this one, so the link itself costs nothing.
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 9);
const openings = 200;
const ways = ['direct', 'last hop'] as const;

const processes = new BenchProcesses();
try {
  const agent = await processes.startAgent();
  const authority = path.join(processes.dir, 'authority');
  const start = (script: string, ...args: string[]) => processes.start(path.join(import.meta.dirname, script), ...args);
  // The first process makes the authority, and the gateway reads it.
  const end = await start('host-end.ts', authority);
  const gateway = '../gateway/one-sandbox-gateway.ts';
  const ports = {
    direct: (await start(gateway, `${agent.port}`)).port,
    'last hop': (await start(gateway, `${agent.port}`, authority, `${end.port}`)).port,
  };
  const place = (await (await tunnelsThrough(authority, end.port)).tunnelTo(benchHostId))!;
  const target = { sandboxId: 'sbx-bench' as SandboxId, port: agent.port, wantsReply: true };
  /** Measured until the sandbox's port has accepted the connection. */
  const open = {
    direct: async () => {
      const socket = net.connect(agent.port, '127.0.0.1');
      await once(socket, 'connect');
      return socket;
    },
    'last hop': async () => {
      const socket = openTunnel(place, target);
      await once(socket, 'readable');
      return socket;
    },
  };
  const samples = {
    openMs: new Samples(),
    latencyMs: new Samples(),
    perSecond: new Samples(),
    mibPerSecond: new Samples(),
  };
  for (const name of ways) await throughput(ports[name], throughputRequests);
  for (let round = 0; round < rounds; round++) {
    for (const name of ways) {
      samples.openMs.add(name, await openingP50(open[name]));
      samples.latencyMs.add(name, await latencyP50(ports[name]));
      samples.perSecond.add(name, await throughput(ports[name], throughputRequests));
      samples.mibPerSecond.add(name, await download(ports[name], `/download${processes.file}`));
    }
    process.stderr.write(`round ${round + 1} of ${rounds}\n`);
  }
  const { openMs, latencyMs, perSecond, mibPerSecond } = samples;
  console.table(
    ways.map((name) => ({
      name,
      'a new connection, p50 ms': Number(openMs.median(name).toFixed(3)),
      'a request, p50 ms': Number(latencyMs.median(name).toFixed(4)),
      'requests/s': Math.round(perSecond.median(name)),
      '256 MiB, MiB/s': Math.round(mibPerSecond.median(name)),
    })),
  );
  const ratios = { 'a request': latencyMs, 'requests/s': perSecond, '256 MiB': mibPerSecond };
  for (const [measure, values] of Object.entries(ratios)) {
    console.log(`${measure.padEnd(10)}  last hop ÷ direct  ${values.ratio('last hop', 'direct').toFixed(2)}`);
  }
} finally {
  processes.stop();
}

async function openingP50(open: () => Promise<net.Socket>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < openings; i++) {
    const startedAt = performance.now();
    const socket = await open();
    times.push(performance.now() - startedAt);
    socket.destroy();
  }
  return computeMedian(times);
}
