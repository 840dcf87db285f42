import os from 'node:os';
import path from 'node:path';
import { readCpuMs } from '../process-cpu.ts';
import { BenchProcesses, download, fileBytes, latencyP50, Samples, throughput, throughputRequests } from './load.ts';

/**
 * Compares the gateway with a direct connection and a bare node:http proxy, all to the same real agent, alternately, so
 * that other load of the machine affects all of them. `node bench/gateway/run.ts [rounds]`
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 9);
const ways = ['direct', 'bare', 'gateway'] as const;
const here = import.meta.dirname;

/** CPU seconds per GiB of each process in a download, over several downloads one after the other. */
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

  /** Other load of the machine can only increase the cost, so the lowest counts. */
  get cheapest(): Record<string, number> {
    return this.#measured.reduce((least, each) => (sumCosts(each) < sumCosts(least) ? each : least));
  }

  /** The least seconds for a GiB: each process has one thread, and all of them share the cores. */
  get minSeconds(): number {
    return Math.max(...Object.values(this.cheapest), sumCosts(this.cheapest) / os.availableParallelism());
  }

  #cpuMs(): [name: string, ms: number][] {
    return Object.entries(this.#pids).map(([name, pid]) => [name, readCpuMs(pid)]);
  }
}

const sumCosts = (costs: Record<string, number>) => Object.values(costs).reduce((sum, each) => sum + each, 0);

const processes = new BenchProcesses();
try {
  const { file } = processes;
  const agent = await processes.startAgent();
  const startProxy = (script: string) => processes.start(path.join(here, script), `${agent.port}`);
  const [bare, gateway] = [await startProxy('bare-proxy.ts'), await startProxy('one-sandbox-gateway.ts')];
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
  processes.stop();
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
  // Three busy processes share few cores, and other load can only slow them down, so the best round counts.
  const bytes = downloadMiBPerSecond.best('gateway') / downloadMiBPerSecond.best('direct');
  console.log(`p50 ÷ (direct + one bare hop)    ${hop.toFixed(2)}   goal ≤ 1.00   ${verdict(hop <= 1)}`);
  console.log(`requests/s ÷ bare proxy's        ${rate.toFixed(2)}   goal ≥ 0.80   ${verdict(rate >= 0.8)}`);
  console.log(`256 MiB speed ÷ the agent's own  ${bytes.toFixed(2)}   goal ≥ 0.80   ${verdict(bytes >= 0.8)}`);
  const most = costs.direct.minSeconds / costs.gateway.minSeconds;
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
