import { setTimeout as delay } from 'node:timers/promises';
import { AgentClient } from '../../ops/development/client/agent-client.ts';
import type { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { idleRows } from '../idle-use.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { measureContainerFloor } from './container-floor.ts';
import { sandboxMemoryMib } from './idle-memory.ts';
import { measureListPage } from './list-page.ts';
import { measureNodeFloor } from './node-floor.ts';
import { measureTemporalFloor } from './temporal-floor.ts';

const times = Number(process.env.BENCH_TIMES ?? 20);
const concurrent = 10;

interface Split {
  total: number;
  create: number;
  firstOutput: number;
}

/** Creates a sandbox and runs a command in it, like a user, and deletes it. */
async function createAndRun(platform: PlatformClient): Promise<Split> {
  const startedMs = performance.now();
  const sandbox = await platform.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1 });
  const createdMs = performance.now();
  const agent = new AgentClient(sandbox.sandbox_domain, sandbox.envd_access_token);
  const { stdout } = await agent.run('/bin/echo', ['up']);
  if (stdout !== 'up\n') throw new Error(`the command wrote ${JSON.stringify(stdout)}`);
  const endedMs = performance.now();
  agent.close();
  await platform.deleteSandbox(sandbox.sandbox_id);
  return { total: endedMs - startedMs, create: createdMs - startedMs, firstOutput: endedMs - createdMs };
}

async function measureCreates(warmPoolSize: number, floors: { sum: number; concurrentSum: number }): Promise<Row[]> {
  const platform = new RunningPlatform({ PLATFORM_WARM_POOL_SIZE: String(warmPoolSize) });
  await platform.start();
  try {
    const client = platform.client();
    await createAndRun(client);
    const kind = warmPoolSize === 0 ? 'cold' : `pool of ${warmPoolSize}`;
    const turns: Split[] = [];
    await inTurn(times, async () => turns.push(await createAndRun(client)));
    const together = await Promise.all(Array.from({ length: concurrent }, () => createAndRun(client)));
    const total = summarize(turns.map((each) => each.total));
    const totalTogether = summarize(together.map((each) => each.total));
    return [
      {
        measure: `create → first output, ${kind}`,
        value: total,
        unit: 'ms',
        goal: holdAgainst(total.p50, 1.3 * floors.sum, 'ms'),
      },
      { measure: '… of it the create', value: summarize(turns.map((each) => each.create)), unit: 'ms' },
      { measure: '… of it the first command', value: summarize(turns.map((each) => each.firstOutput)), unit: 'ms' },
      {
        measure: `${concurrent} at once, ${kind}`,
        value: totalTogether,
        unit: 'ms',
        goal: holdAgainst(totalTogether.p50, 1.3 * floors.concurrentSum, 'ms'),
      },
    ];
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

async function measureLife(): Promise<{ rows: Row[]; floors: { sum: number; concurrentSum: number } }> {
  const platform = new RunningPlatform({ PLATFORM_WARM_POOL_SIZE: '0' });
  const readyMs = await platform.start();
  try {
    const client = platform.client();
    const [temporal, node, container] = [
      await measureTemporalFloor(platform.env.TEMPORAL_ADDRESS, times, concurrent),
      await measureNodeFloor(times),
      await measureContainerFloor(times, concurrent),
    ];
    const floor = {
      start: summarize(temporal.start),
      update: summarize(temporal.update),
      node: summarize(node),
      container: summarize(container.inTurn),
    };
    const floors = {
      sum: floor.start.p50 + floor.node.p50 + floor.container.p50,
      concurrentSum:
        summarize(temporal.startConcurrent).p50 + floor.node.p50 * (concurrent / 2) + summarize(container.atOnce).p50,
    };

    const sandbox = await client.createSandbox({ timeout: 3600 });
    await delay(5000);
    const idle = sandboxMemoryMib(sandbox.sandbox_id);
    const post = (action: string) =>
      timed(async () => {
        const { status, body } = await client.request('POST', `/v1/sandboxes/${sandbox.sandbox_id}/${action}`, {});
        if (status !== 200) throw new Error(`${action}: ${status} ${body.error}`);
      });
    const pauses: number[] = [];
    const resumes: number[] = [];
    await inTurn(times, async () => {
      pauses.push(await post('pause'));
      resumes.push(await post('resume'));
      return 0;
    });
    const databaseUrl = runningPlatformEnv(platform.dataDir, {}).DATABASE_URL!;
    const pages = summarize(await measureListPage(client, databaseUrl, sandbox.sandbox_id, 10_000, 300));
    const pause = summarize(pauses);
    const resume = summarize(resumes);
    return {
      floors,
      rows: [
        { measure: 'floor: bare update-with-start, one activity', value: floor.start, unit: 'ms' },
        { measure: 'floor: bare update, one activity', value: floor.update, unit: 'ms' },
        { measure: 'floor: container runtime on the same image', value: floor.container, unit: 'ms' },
        { measure: 'floor: bare Node listener', value: floor.node, unit: 'ms' },
        { measure: 'pause', value: pause, unit: 'ms', goal: holdAgainst(pause.p50, floor.update.p50 + 15, 'ms') },
        { measure: 'resume', value: resume, unit: 'ms', goal: holdAgainst(resume.p50, floor.update.p50 + 15, 'ms') },
        {
          measure: 'page of 50 from 10,000',
          value: pages,
          unit: 'ms',
          goal: `p99 ${holdAgainst(pages.p99, 30, 'ms')}`,
        },
        {
          measure: 'memory of an idle sandbox, of its processes alone',
          value: `${idle.total.toFixed(1)}, ${idle.anonymous.toFixed(1)}`,
          unit: 'MiB',
        },
        {
          measure: 'npm start until ready, first start of a folder',
          value: `${(readyMs / 1000).toFixed(1)}`,
          unit: 's',
        },
      ],
    };
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

/** Measures a platform with default settings and without requests. */
async function measureIdle(): Promise<Row[]> {
  const platform = new RunningPlatform();
  await platform.start();
  try {
    // The pool is filled, and Temporal has read its settings for idle times.
    await delay(90_000);
    return await idleRows(platform, 5);
  } finally {
    await platform.stop();
    await platform.hostRemains();
    platform.removeData();
  }
}

printTable('The idle platform', await measureIdle());
const { rows, floors } = await measureLife();
printTable('Floors and commands', rows);
printTable('Create, cold', await measureCreates(0, floors));
printTable('Create, from the pool', await measureCreates(concurrent, floors));
