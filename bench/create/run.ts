import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { type GroupUse, platformUse } from '../process-groups.ts';
import { inTurn, summarize } from '../statistics.ts';
import { printTable, type Row } from '../table.ts';
import { type LifeTimes, readLifeTimes } from './life-times.ts';

/** Where the time of a create goes, and the processor time: one after the other, cold and from the pool. */
const times = Number(process.env.BENCH_TIMES ?? 20);
/** The disk of the first members of a pool. */
const storageGb = 10;
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: storageGb, timeout: 3600 };

for (const [title, pool] of [
  ['cold', 0],
  ['from the pool', times + 2],
] as const) {
  const platform = new RunningPlatform({
    PLATFORM_WARM_POOL_SIZE: String(pool),
    PLATFORM_RATE_LIMIT_PER_KEY: '0',
    PLATFORM_LOG_LEVEL: 'debug',
  });
  await platform.start();
  try {
    const created = await createAll(platform, pool);
    printTable(`Create, ${title}: milliseconds`, await timeRows(platform, created.traced));
    printTable(`Create, ${title}: milliseconds of a core`, created.cpu);
    console.log(`\nLoad of the machine: ${os.loadavg()[0]!.toFixed(1)}`);
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

interface Traced {
  sandboxId: string;
  askedAtMs: number;
  repliedAtMs: number;
}

async function createAll(platform: RunningPlatform, pool: number): Promise<{ traced: Traced[]; cpu: Row[] }> {
  const client = platform.client();
  const supervisor = platform.pidsOf('ops/local-stack/start.ts')[0]!;
  const use = () => platformUse(supervisor, platform.dataDir);
  const empty = use();
  if (pool > 0) await untilShims(use, pool);
  const refillMs = pool > 0 ? allMs(spentBetween(empty, use())) / (pool - shimsIn(empty)) : 0;
  // The first creates of a platform pay for what later ones find there.
  for (let warm = 0; warm < 3; warm += 1) await client.deleteSandbox((await client.createSandbox(wanted)).sandbox_id);
  if (pool > 0) await untilShims(use, pool);
  const before = use();
  const traced: Traced[] = [];
  await inTurn(times, async () => {
    const askedAtMs = Date.now();
    const { sandbox_id: sandboxId } = await madeBy(client);
    traced.push({ sandboxId, askedAtMs, repliedAtMs: Date.now() });
    return 0;
  });
  // With the members that took the places of those that were claimed.
  if (pool > 0) await untilShims(use, pool + times);
  return { traced, cpu: cpuRows(spentBetween(before, use()), refillMs) };
}

async function madeBy(client: PlatformClient): Promise<SandboxView> {
  const sandbox = await client.createSandbox(wanted);
  if (sandbox.status !== 'running') throw new Error(`${sandbox.sandbox_id} is ${sandbox.status}: ${sandbox.reason}`);
  return sandbox;
}

function shimsIn(groups: Map<string, GroupUse>): number {
  return groups.get('shims')?.processes ?? 0;
}

async function untilShims(use: () => Map<string, GroupUse>, count: number): Promise<void> {
  const deadline = Date.now() + 300_000;
  while (shimsIn(use()) < count) {
    if (Date.now() > deadline) throw new Error(`there are ${shimsIn(use())} shims, not ${count}`);
    await delay(1000);
  }
  // The last one is still being made.
  await delay(3000);
}

/** Milliseconds of a core by kind of process; programs that have ended apart. */
function spentBetween(before: Map<string, GroupUse>, after: Map<string, GroupUse>): Map<string, number> {
  const spent = new Map<string, number>();
  for (const [name, { cpuMs }] of after) spent.set(name, cpuMs - (before.get(name)?.cpuMs ?? 0));
  for (const name of ['host worker', 'shims', 'in sandboxes']) {
    const ended = (groups: Map<string, GroupUse>) => groups.get(name)?.endedCpuMs ?? 0;
    spent.set(`programs that ended, of: ${name}`, ended(after) - ended(before));
  }
  return spent;
}

function allMs(spent: Map<string, number>): number {
  return [...spent.values()].reduce((sum, ms) => sum + ms, 0);
}

/** @param refillMs of one member of the pool, measured while the pool was filled and nothing else happened */
function cpuRows(spent: Map<string, number>, refillMs: number): Row[] {
  const all = allMs(spent) / times;
  const parts = [...spent].map(([name, ms]) => [name, ms / times] as const).sort(([, a], [, b]) => b - a);
  const refill = [
    ['… of it the refill of the pool', refillMs],
    ['… of it the create', all - refillMs],
  ] as const;
  const rows = [['all', all] as const, ...(refillMs > 0 ? refill : []), ...parts];
  return rows.map(([measure, ms]) => ({ measure, value: ms.toFixed(1), unit: 'ms of a core' }));
}

async function timeRows(platform: RunningPlatform, traced: readonly Traced[]): Promise<Row[]> {
  const env = runningPlatformEnv(platform.dataDir, {});
  const connection = await Connection.connect({ address: env.TEMPORAL_ADDRESS! });
  const client = new Client({ connection });
  const hostSteps = readHostSteps(platform.dataDir);
  const steps = new Map<string, number[]>();
  const add = (name: string, ms: number) => steps.set(name, [...(steps.get(name) ?? []), ms]);
  for (const { sandboxId, askedAtMs, repliedAtMs } of traced) {
    const life = await readLifeTimes(client, env.TEMPORAL_NAMESPACE ?? 'default', sandboxId);
    add('all', repliedAtMs - askedAtMs);
    add('API: HTTP, admission, start of the workflow', life.started - askedAtMs);
    add('Temporal: until the control worker has its first task', life.firstTask - life.started);
    add('control worker: first task', life.hostWorkAsked - life.firstTask);
    add('Temporal: until the host worker has its work', life.hostWorkBegun - life.hostWorkAsked);
    addHostSteps(add, life, hostSteps.get(sandboxId) ?? {});
    add('control worker: row `running`, answer of the update', life.answered - life.hostWorkDone);
    add('Temporal and API: reply', repliedAtMs - life.answered);
  }
  await connection.close();
  return [...steps].map(([measure, values]) => ({ measure, value: summarize(values), unit: 'ms' }));
}

function addHostSteps(add: (name: string, ms: number) => void, life: LifeTimes, marks: Record<string, number>): void {
  let lastMs = 0;
  for (const [step, atMs] of Object.entries(marks)) {
    add(`host: ${step}`, atMs - lastMs);
    lastMs = atMs;
  }
  add('host: row `starting`, Temporal', life.hostWorkDone - life.hostWorkBegun - lastMs);
}

/** The host worker's traces, by sandbox: milliseconds from the beginning to each step. */
function readHostSteps(dataDir: string): Map<string, Record<string, number>> {
  const found = new Map<string, Record<string, number>>();
  for (const line of readFileSync(path.join(dataDir, 'logs', 'host.log'), 'utf8').split('\n')) {
    if (!line.includes('"sandbox started"')) continue;
    const { sandboxId, steps } = JSON.parse(line.slice(line.indexOf('{')));
    found.set(sandboxId, steps);
  }
  return found;
}
