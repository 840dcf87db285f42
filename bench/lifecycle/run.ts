import { setTimeout as delay } from 'node:timers/promises';
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

async function measureLife(): Promise<Row[]> {
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
    return [
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
    ];
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
printTable('Floors and commands', await measureLife());
