import { createOrm, type Orm } from '../../db/orm.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { RunningPlatform } from '../../test/support/running-platform.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';
import { measureSamplesCost } from './samples-cost.ts';

/** The cost of samples of many sandboxes, and the time to read a week of one sandbox. `npm run bench -- metrics` */
const sandboxes = 1000;
const samples = 36;
const days = 7;
/** The number of sandboxes with a week of samples. One of them is read. */
const withWeek = 8;
const times = 300;

const platform = new RunningPlatform({ PLATFORM_WARM_POOL_SIZE: '0' });
await platform.start();
try {
  const client = platform.client();
  const { sandbox_id: source } = await client.createSandbox({ cpu_count: 1, memory_mb: 256, storage_gb: 1 });
  const orm = await createOrm(runningPlatformEnv(platform.dataDir, {}).DATABASE_URL!, 1);
  try {
    const ids = await copySandbox(orm, source, sandboxes);
    const cost = await measureSamplesCost(orm, ids, samples);
    const totalMs = cost.samplerMs + cost.databaseMs;
    await fillWeek(orm, ids.slice(0, withWeek));
    const week = summarize(await readWeek(client, ids[0]!));
    const { rows, bytes } = await readSize(orm);
    printTable('Metrics', [
      { measure: `a sample at ${sandboxes}: host worker`, value: cost.samplerMs.toFixed(1), unit: 'ms of a core' },
      { measure: `a sample at ${sandboxes}: Postgres`, value: cost.databaseMs.toFixed(1), unit: 'ms of a core' },
      {
        measure: '… both, every 5 s',
        value: ((100 * totalMs) / 5000).toFixed(2),
        unit: '% of a core',
        goal: holdAgainst((100 * totalMs) / 5000, 2, '%'),
      },
      {
        measure: `7 days at 15m of one in ${withWeek}, ${rows} samples, ${bytes}`,
        value: week,
        unit: 'ms',
        goal: `p99 ${holdAgainst(week.p99, 50, 'ms')}`,
      },
    ]);
  } finally {
    await orm.close();
  }
} finally {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}

/** Rows with the status `running`, without real sandboxes. */
async function copySandbox(orm: Orm, sandboxId: SandboxId, count: number): Promise<SandboxId[]> {
  const em = orm.em.fork();
  const names = (await em.execute(
    `select column_name as name from information_schema.columns
      where table_name = 'sandboxes' and column_name not in ('sandbox_id', 'holds_compute', 'holds_disk')`,
  )) as { name: string }[];
  const columns = names.map(({ name }) => name).join(', ');
  const made = (await em.execute(
    `insert into sandboxes (sandbox_id, holds_compute, holds_disk, ${columns})
     select 'sbx-bench' || n, false, false, ${columns} from sandboxes, generate_series(1, ?::int) n where sandbox_id = ?
     returning sandbox_id`,
    [count, sandboxId],
  )) as { sandbox_id: SandboxId }[];
  return made.map((row) => row.sandbox_id);
}

/**
 * Every sample of a week, in the order in which hosts write them, and its minutes. The quarters of an hour follow from
 * those.
 */
async function fillWeek(orm: Orm, ids: readonly string[]): Promise<void> {
  const em = orm.em.fork();
  const list = `{${ids.join(',')}}`;
  await em.execute('truncate sandbox_metrics, sandbox_metrics_minutes, sandbox_metrics_quarters');
  await em.execute(
    `select make_metrics_partitions((now() at time zone 'UTC')::date - ${days}, (now() at time zone 'UTC')::date)`,
  );
  await em.execute(
    `insert into sandbox_metrics
     select id, at, 1, 50 + 40 * sin(extract(epoch from at) / 3600), 268435456, 134217728, 1038090240, 52428800, 10, 10
       from generate_series(date_bin('5 seconds', now(), 'epoch') - interval '${days} days', now(), interval '5 seconds') at,
            unnest(?::text[]) id
      order by at`,
    [list],
  );
  await em.execute(
    `insert into sandbox_metrics_minutes
     select sandbox_id, date_trunc('minute', sampled_at), count(*), max(cpu_count), sum(cpu_used_pct), max(mem_total),
            sum(mem_used), max(disk_total), sum(disk_used), sum(received_bytes), sum(sent_bytes)
       from sandbox_metrics where sandbox_id = any(?::text[]) group by 2, 1 order by 2`,
    [list],
  );
  await em.execute('analyze sandbox_metrics, sandbox_metrics_minutes, sandbox_metrics_quarters');
}

async function readWeek(client: PlatformClient, sandboxId: SandboxId): Promise<number[]> {
  const read = async () => {
    const start = Date.now() - days * 86_400_000;
    const { body } = await client.request<{ metrics: unknown[] }>(
      'GET',
      `/v1/sandboxes/${sandboxId}/metrics?start=${start}&step=15m`,
    );
    if (body.data.metrics.length < days * 96) throw new Error(`${body.data.metrics.length} steps`);
  };
  await inTurn(20, () => timed(read));
  return inTurn(times, () => timed(read));
}

async function readSize(orm: Orm): Promise<{ rows: string; bytes: string }> {
  const [row] = (await orm.em.fork().execute(
    `select (select count(*) from sandbox_metrics)::text as rows,
            pg_size_pretty(sum(pg_total_relation_size(inhrelid))) as bytes
       from pg_inherits
      where inhparent in ('sandbox_metrics'::regclass, 'sandbox_metrics_minutes'::regclass, 'sandbox_metrics_quarters'::regclass)`,
  )) as { rows: string; bytes: string }[];
  return row!;
}
