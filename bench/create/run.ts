import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { measureContainerFloor } from '../lifecycle/container-floor.ts';
import { measureNodeFloor } from '../lifecycle/node-floor.ts';
import { measureTemporalFloor, type TracedStart } from '../lifecycle/temporal-floor.ts';
import { type GroupUse, platformUse } from '../process-groups.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { readLifeTimes } from './life-times.ts';

/** The time and the processor time of the parts of a create: one after the other, cold and from the pool. */
const times = Number(process.env.BENCH_TIMES ?? 20);
const concurrent = 10;
/**
 * Clients that create one sandbox after the other, more than the pool has: as fast as they can, and together `aSecond`.
 */
const clients = { count: 20, creates: 3, aSecond: 8 };
/** The disk of the first members of a pool. */
const storageGb = 10;
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: storageGb, timeout: 3600 };
/** How long the idle platform is measured. */
const idleMs = 8000;
/** Node writes a CPU profile of each of the platform's processes into this folder. */
const profileDir = process.env.BENCH_PROFILE_DIR;

for (const [title, pool] of [
  ['cold', 0],
  ['from the pool', Math.max(times, concurrent) + 2],
] as const) {
  if ((process.env.BENCH_CREATE ?? title) !== title) continue;
  const platform = new RunningPlatform({
    PLATFORM_WARM_POOL_SIZE: String(pool),
    PLATFORM_WARM_POOL_MAX_SIZE: String(Math.max(1, pool)),
    PLATFORM_RATE_LIMIT_PER_KEY: '0',
    PLATFORM_LOG_LEVEL: 'debug',
    ...(profileDir && {
      NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${path.join(profileDir, title.replaceAll(' ', '-'))}`,
    }),
  });
  await platform.start();
  try {
    const floors = await measureFloors(platform, pool);
    const created = await createAll(platform, pool);
    printTable(`Create, ${title}: against the floors`, againstFloors(created, floors));
    printTable(`Create, ${title}: milliseconds`, directRows(platform.dataDir, created.traced));
    printTable('Bare update-with-start with one activity: milliseconds', await timeRows(platform, floors.started));
    printTable(`Create, ${title}: milliseconds of a core`, created.cpu);
    console.log(`\nLoad of the machine: ${os.loadavg()[0]!.toFixed(1)}`);
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

interface Floors {
  start: number;
  update: number;
  /** The parts of a cold create without Temporal: the container runtime and the start of Node. */
  cold: number;
  started: readonly TracedStart[];
}

async function measureFloors(platform: RunningPlatform, pool: number): Promise<Floors> {
  const temporal = await measureTemporalFloor(platform.env.TEMPORAL_ADDRESS, times, concurrent);
  const start = summarize(temporal.start).p50;
  const container = pool > 0 ? 0 : summarize((await measureContainerFloor(times, 1)).inTurn).p50;
  const node = pool > 0 ? 0 : summarize(await measureNodeFloor(times)).p50;
  return { start, update: summarize(temporal.update).p50, cold: container + node, started: temporal.started };
}

interface Created {
  traced: TracedStart[];
  /** From the request of the create until the output of a first command. */
  firstOutputs: number[];
  many: { times: number[]; elapsedMs: number };
  steady: number[];
  pauses: number[];
  resumes: number[];
  /** For concurrent creates, until the last has its reply. */
  together: number;
  cpu: Row[];
}

function againstFloors(
  { traced, firstOutputs, resumes, pauses, together, many, steady }: Created,
  floors: Floors,
): Row[] {
  const create = summarize(traced.map(({ askedAtMs, repliedAtMs }) => repliedAtMs - askedAtMs));
  const [resume, pause, output] = [summarize(resumes), summarize(pauses), summarize(firstOutputs)];
  const manyTimes = summarize(many.times);
  const steadyTimes = summarize(steady);
  const aSecond = many.times.length / (many.elapsedMs / 1000);
  const floor = floors.start + floors.cold;
  const isPool = floors.cold === 0;
  const goal = isPool ? 1.25 * floor : floor + 25;
  const goals = [holdAgainst(create.p50, goal, 'ms'), `p99 ${holdAgainst(create.p99, 2 * create.p50, 'ms')}`];
  return [
    { measure: isPool ? 'floor: bare update-with-start' : 'floors of a create', value: floor.toFixed(1), unit: 'ms' },
    { measure: 'floor: bare update with one activity', value: floors.update.toFixed(1), unit: 'ms' },
    { measure: 'create', value: create, unit: 'ms', goal: goals.join('; ') },
    {
      measure: 'create → first output',
      value: output,
      unit: 'ms',
      ...(isPool && { goal: holdAgainst(output.p50, floor + 25, 'ms') }),
    },
    { measure: 'pause', value: pause, unit: 'ms', goal: holdAgainst(pause.p50, floors.update + 15, 'ms') },
    { measure: 'resume', value: resume, unit: 'ms', goal: holdAgainst(resume.p50, floors.update + 15, 'ms') },
    {
      measure: `${concurrent} creates at once, until the last replied`,
      value: together.toFixed(0),
      unit: 'ms',
      ...(isPool && { goal: holdAgainst(together, 350, 'ms') }),
    },
    {
      measure: `${clients.count} clients, ${clients.creates} creates each`,
      value: manyTimes,
      unit: 'ms',
    },
    {
      measure: '… creates a second',
      value: aSecond.toFixed(1),
      unit: '/s',
      ...(isPool && { goal: `≥ ${clients.aSecond}/s: ${aSecond >= clients.aSecond ? 'met' : 'not met'}` }),
    },
    {
      measure: `${clients.count} clients, together ${clients.aSecond} creates a second`,
      value: steadyTimes,
      unit: 'ms',
      ...(isPool && { goal: `p99 ${holdAgainst(steadyTimes.p99, 1000, 'ms')}` }),
    },
  ];
}

async function createAll(platform: RunningPlatform, pool: number): Promise<Created> {
  const client = platform.client();
  const supervisor = platform.findPids('ops/local-stack/start.ts')[0]!;
  const use = () => platformUse(supervisor, platform.dataDir);
  if (pool > 0) await untilShims(use, pool);
  // The first creates of a platform fill caches for later ones.
  for (let warm = 0; warm < 3; warm += 1) await client.deleteSandbox((await client.createSandbox(wanted)).sandbox_id);
  if (pool > 0) await untilShims(use, pool);
  const idle = await measured(use, () => delay(idleMs));

  const traced: TracedStart[] = [];
  const creates = await measured(use, () =>
    inTurn(times, async () => {
      const askedAtMs = Date.now();
      const { sandbox_id: workflowId } = await madeBy(client);
      traced.push({ workflowId, askedAtMs, repliedAtMs: Date.now() });
      return 0;
    }),
  );
  const refill = pool > 0 ? await measured(use, () => untilShims(use, pool + times)) : null;
  const cpu = cpuRows(idle, creates, refill);

  const resumed = traced[0]!.workflowId;
  const post = (action: string) => timed(() => postAction(client, resumed, action));
  const pauses: number[] = [];
  const resumes: number[] = [];
  for (let turn = 0; turn < times; turn += 1) {
    pauses.push(await post('pause'));
    resumes.push(await post('resume'));
  }
  const firstOutputs = await inTurn(times, () => timed(async () => echo(await madeBy(client))));
  if (pool > 0) await untilShims(use, 2 * times + pool);
  const together = await timed(() => Promise.all(Array.from({ length: concurrent }, () => madeBy(client))));
  if (pool > 0) await untilShims(use, 2 * times + concurrent + pool);
  const manyTimes: number[] = [];
  const elapsedMs = await timed(() =>
    Promise.all(
      Array.from({ length: clients.count }, () =>
        inTurn(clients.creates, async () => manyTimes.push(await timed(() => madeBy(client)))),
      ),
    ),
  );
  const made = 2 * times + concurrent + clients.count * clients.creates;
  if (pool > 0) await untilShims(use, made + pool);
  const steady = await createSteadily(client);
  return { traced, firstOutputs, pauses, resumes, together, many: { times: manyTimes, elapsedMs }, steady, cpu };
}

/** Each client creates a sandbox in its own moment of each period. */
async function createSteadily(client: PlatformClient): Promise<number[]> {
  const periodMs = (clients.count / clients.aSecond) * 1000;
  const steady: number[] = [];
  await Promise.all(
    Array.from({ length: clients.count }, async (_, index) => {
      const beganMs = performance.now() + (index / clients.aSecond) * 1000;
      for (let turn = 0; turn < clients.creates; turn += 1) {
        await delay(Math.max(0, beganMs + turn * periodMs - performance.now()));
        steady.push(await timed(() => madeBy(client)));
      }
    }),
  );
  return steady;
}

async function echo(sandbox: SandboxView): Promise<void> {
  const agent = new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
  const { stdout } = await agent.run('/bin/echo', ['up']);
  agent.close();
  if (stdout !== 'up\n') throw new Error(`the command wrote ${JSON.stringify(stdout)}`);
}

async function postAction(client: PlatformClient, sandboxId: string, action: string): Promise<void> {
  const { status, body } = await client.request('POST', `/v1/sandboxes/${sandboxId}/${action}`, {});
  if (status !== 200) throw new Error(`${action}: ${status} ${body.error}`);
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
  // The last member is still being made.
  await delay(3000);
}

/** Processor time of the platform for a piece of work: milliseconds of a core by kind of process. */
interface Spent {
  elapsedMs: number;
  parts: Map<string, number>;
  newShims: number;
}

/** Ended programs are counted separately. */
async function measured(use: () => Map<string, GroupUse>, work: () => Promise<unknown>): Promise<Spent> {
  const before = use();
  const elapsedMs = await timed(work);
  const after = use();
  const parts = new Map<string, number>();
  for (const [name, { cpuMs }] of after) parts.set(name, cpuMs - (before.get(name)?.cpuMs ?? 0));
  for (const name of ['host worker', 'shims', 'in sandboxes']) {
    const ended = (groups: Map<string, GroupUse>) => groups.get(name)?.endedCpuMs ?? 0;
    parts.set(`programs that ended, of: ${name}`, ended(after) - ended(before));
  }
  return { elapsedMs, parts, newShims: shimsIn(after) - shimsIn(before) };
}

function allMs({ parts }: Spent): number {
  return [...parts.values()].reduce((sum, ms) => sum + ms, 0);
}

/** The cost of a create, less the platform's idle use in the same time. */
function cpuRows(idle: Spent, creates: Spent, refill: Spent | null): Row[] {
  const beyondIdle = (spent: Spent) => allMs(spent) - allMs(idle) * (spent.elapsedMs / idle.elapsedMs);
  const parts = [...creates.parts].map(([name, ms]) => {
    const idleMs = (idle.parts.get(name) ?? 0) * (creates.elapsedMs / idle.elapsedMs);
    return { name, ms: (ms - idleMs) / times };
  });
  const all = beyondIdle(creates) / times;
  const goal = refill ? holdAgainst(all, 100, 'ms') : undefined;
  const row = (measure: string, ms: number) => ({ measure, value: ms.toFixed(1), unit: 'ms of a core' });
  const begun = refill ? creates.newShims : 0;
  return [
    { ...row('a create', all), ...(goal && { goal }) },
    ...parts.sort((a, b) => b.ms - a.ms).map(({ name, ms }) => row(`… ${name}`, ms)),
    ...(refill ? [row('a new member of the pool', beyondIdle(refill) / refill.newShims)] : []),
    ...(begun > 0 ? [{ measure: 'members that were made meanwhile', value: String(begun), unit: '' }] : []),
    {
      measure: 'the idle platform',
      value: (allMs(idle) / (idle.elapsedMs / 1000)).toFixed(1),
      unit: 'ms of a core a second',
    },
  ];
}

/** The parts of direct starts, in the order in which a caller waits for them. */
function directRows(dataDir: string, traced: readonly TracedStart[]): Row[] {
  const direct = readHostLog<DirectStartLine>(dataDir, '"direct start"');
  const started = readHostLog<{ sandboxId: string; steps: Record<string, number> }>(dataDir, '"sandbox started"');
  const steps = new Map<string, number[]>();
  const add = (name: string, ms: number) => steps.set(name, [...(steps.get(name) ?? []), ms]);
  for (const { workflowId, askedAtMs, repliedAtMs } of traced) {
    const line = direct.get(workflowId);
    add('all', repliedAtMs - askedAtMs);
    if (!line) continue;
    const { claimed, created, recorded } = line.steps;
    add('API: HTTP and admission; Postgres: until the host hears of it', line.heardAtMs - askedAtMs);
    add('host: row `starting`', claimed);
    let lastMs = 0;
    for (const [step, atMs] of Object.entries(started.get(workflowId)?.steps ?? {})) {
      add(`host: ${step}`, atMs - lastMs);
      lastMs = atMs;
    }
    add('host: rest of the start', created - lastMs);
    add('host: row `running` with its event', recorded);
    add('Postgres: news; API: reply', repliedAtMs - line.heardAtMs - claimed - created - recorded);
  }
  const count = traced.filter(({ workflowId }) => direct.has(workflowId)).length;
  return [
    { measure: 'direct starts', value: `${count} of ${traced.length}`, unit: '' },
    ...[...steps].map(([measure, values]) => ({ measure, value: summarize(values), unit: 'ms' })),
  ];
}

interface DirectStartLine {
  sandboxId: string;
  heardAtMs: number;
  steps: { claimed: number; created: number; recorded: number };
}

async function timeRows(platform: RunningPlatform, traced: readonly TracedStart[]): Promise<Row[]> {
  const env = runningPlatformEnv(platform.dataDir, {});
  const connection = await Connection.connect({ address: env.TEMPORAL_ADDRESS! });
  const client = new Client({ connection });
  const steps = new Map<string, number[]>();
  const add = (name: string, ms: number) => steps.set(name, [...(steps.get(name) ?? []), ms]);
  for (const { workflowId, askedAtMs, repliedAtMs } of traced) {
    const life = await readLifeTimes(client, env.TEMPORAL_NAMESPACE ?? 'default', workflowId);
    add('all', repliedAtMs - askedAtMs);
    add('until Temporal has stored the start', life.started - askedAtMs);
    add('Temporal: until the worker has the first task', life.firstTask - life.started);
    add('worker: first task, until the activity is asked for', life.hostWorkAsked - life.firstTask);
    add('Temporal: until the activity begins', life.hostWorkBegun - life.hostWorkAsked);
    add('the activity', life.hostWorkDone - life.hostWorkBegun);
    add('Temporal: until the worker has the last task', life.lastTask - life.hostWorkDone);
    add('worker: last task, answer of the update stored', life.answered - life.lastTask);
    add('Temporal and client: reply', repliedAtMs - life.answered);
  }
  await connection.close();
  return [...steps].map(([measure, values]) => ({ measure, value: summarize(values), unit: 'ms' }));
}

/** The first line of each sandbox in the host worker's log that contains the text. */
function readHostLog<Line extends { sandboxId: string }>(dataDir: string, text: string): Map<string, Line> {
  const found = new Map<string, Line>();
  for (const line of readFileSync(path.join(dataDir, 'logs', 'host.log'), 'utf8').split('\n')) {
    if (!line.includes(text)) continue;
    const fields = JSON.parse(line.slice(line.indexOf('{')));
    // A resume logs its steps too.
    if (!found.has(fields.sandboxId)) found.set(fields.sandboxId, fields);
  }
  return found;
}
