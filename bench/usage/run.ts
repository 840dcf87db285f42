import { loadPlans } from '../../db/billing/plans.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import { Host } from '../../db/hosts/host.entity.ts';
import { createOrm } from '../../db/orm.ts';
import { admitSandbox } from '../../db/sandboxes/admission.ts';
import { SandboxLifeRepository } from '../../db/sandboxes/sandbox-life.ts';
import { Template } from '../../db/templates/template.entity.ts';
import { listUsageEvents } from '../../db/usage/usage-event-lists.ts';
import { readUsageByDay, readUsageGroups, readUsageTotals } from '../../db/usage/usage-reports.ts';
import { countSessions } from '../../db/usage/usage-sessions.ts';
import { sumUsage } from '../../db/usage/usage-sums.ts';
import { rollUpUsage } from '../../db/usage/usage-upkeep.ts';
import { anyRegion } from '../../domain/hosts/placement.ts';
import { testDatabase } from '../../test/support/stack.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { inTurn, summarize, timed } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';

/**
 * Reports over ten million usage events of one account in 30 days, and the additional cost of recording usage in a
 * transition. `npm run bench -- usage`
 */
const events = Number(process.env.USAGE_EVENTS ?? 10_000_000);
const reports = 200;
const transitions = 1000;
const hours = 30 * 24;
const types = ['cpu_seconds', 'ram_gb_seconds', 'sandbox_storage_gb_seconds'];
const lives = Math.round(events / hours / types.length);

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const database = await testDatabase();
const orm = await createOrm(database.url, 4, null);
const account = (await bootstrap(orm, {
  email: 'root@example.com',
  planName: 'enterprise',
  baseImage: 'builtin:base',
}))!;
try {
  const fillMs = await timed(fill);
  const end = new Date();
  const start = new Date(end.getTime() - 30 * 86_400_000);
  const of = { scope: { rows: 'account' as const, accountId: account.accountId } };
  const window = { start, end };
  const series = async (work: () => Promise<unknown>, times = reports) => {
    await work();
    return summarize(await inTurn(times, () => timed(work)));
  };
  const summary = await series(() =>
    Promise.all([readUsageTotals(orm.em, of, window, end), countSessions(orm.em, of, window, end)]),
  );
  const byMetadata = await series(() => readUsageGroups(orm.em, of, window, { metadataKey: 'team' }, end), 50);
  const byDay = await series(() => readUsageByDay(orm.em, of, window, end), 50);
  const list = await series(() => listUsageEvents(orm.em, of, {}, window, { limit: 50, offset: 0, after: null }), 50);
  const exact = await equalsRawSum(start, end);
  const rollUp = await timed(async () => {
    await orm.em.fork().execute(
      `insert into usage_pending select resource_id, usage_type, period_start, account_id, user_id, project_id, 0, unit_price
         from usage_events limit 20000`,
    );
    await rollUpUsage(orm.em);
  });
  const { plain, recorded } = await transitionTimes();
  const added = recorded.p50 - plain.p50;
  printTable(`Usage: ${events} events of one account in 30 days (made in ${Math.round(fillMs / 1000)} s)`, [
    { measure: 'summary of 30 days', value: summary, unit: 'ms', goal: `p99 ${holdAgainst(summary.p99, 300, 'ms')}` },
    { measure: 'the same by a key of the metadata', value: byMetadata, unit: 'ms' },
    { measure: 'the same by day', value: byDay, unit: 'ms' },
    { measure: 'a page of events and their number', value: list, unit: 'ms' },
    { measure: 'sums equal the sum of the events', value: exact, unit: '' },
    { measure: '20,000 pending events moved to the sums', value: rollUp.toFixed(0), unit: 'ms' },
    { measure: 'a transition, without usage to record', value: plain, unit: 'ms' },
    { measure: 'a transition, with it', value: recorded, unit: 'ms', goal: `p50 adds ${holdAgainst(added, 1, 'ms')}` },
  ]);
} finally {
  await orm.close();
  await database.drop();
  await stack.stop();
}

/**
 * Sandboxes of 20 users and 50 projects that each live five hours, with eight teams as metadata; their events and the
 * sums of these events.
 */
async function fill(): Promise<void> {
  const em = orm.em.fork();
  await em.execute(`
    select make_usage_partitions((now() - interval '32 days')::date, now()::date);
    alter table usage_events disable trigger usage_events_added;
    set synchronous_commit = off`);
  const resource = "'sbx-bench' || lpad((life + 10000000 * (hour / 5))::text, 12, '0')";
  await em.execute(
    `insert into usage_resources (resource_id, account_id, name, cpu_count, memory_mb, metadata)
     select distinct ${resource}, ?, 'bench', 2, 512, jsonb_build_object('team', 'team-' || life % 8)
       from generate_series(0, ?::int - 1) life, generate_series(0, ?::int - 1, 5) hour`,
    [account.accountId, lives, hours],
  );
  await em.execute(
    `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount,
                               unit_price)
     select ${resource}, ?, 'usr-' || life % 20, 'prj-' || life % 50, kind.type, at, at + interval '1 hour',
            3600000 * kind.rate, kind.price
       from generate_series(0, ?::int - 1) hour
      cross join lateral (select date_trunc('hour', now(), 'UTC') - make_interval(hours => ?::int - hour) as at) started
      cross join generate_series(0, ?::int - 1) life
      cross join (values ('cpu_seconds', 2, 0.000014), ('ram_gb_seconds', 512, 0.0000045),
                         ('sandbox_storage_gb_seconds', 10, 0.00000003)) kind(type, rate, price)`,
    [account.accountId, hours, hours, lives],
  );
  for (const [unit, table] of [
    ['hour', 'hours'],
    ['day', 'days'],
  ]) {
    await em.execute(
      `insert into usage_${table}
       select account_id, date_trunc('${unit}', period_start, 'UTC'), usage_type, user_id, project_id, unit_price, sum(amount), count(*)
         from usage_events group by 1, 2, 3, 4, 5, 6`,
    );
    await em.execute(
      `insert into usage_label_${table}
       select e.account_id, date_trunc('${unit}', e.period_start, 'UTC'), e.usage_type, e.user_id, e.project_id, e.unit_price,
              md5(r.metadata::text), r.metadata, sum(e.amount)
         from usage_events e join usage_resources r using (resource_id) group by 1, 2, 3, 4, 5, 6, 7, 8`,
    );
  }
  await em.execute('alter table usage_events enable trigger usage_events_added; analyze');
}

async function equalsRawSum(start: Date, end: Date): Promise<string> {
  // A window of whole hours, so that every event is either completely inside or outside.
  const [from, to] = [start, end].map((time) => new Date(Math.floor(time.getTime() / 3_600_000) * 3_600_000));
  const [raw] = (await orm.em.fork().execute(
    `select sum(amount)::text as amount from usage_events
      where usage_type = 'ram_gb_seconds' and period_start >= ?::timestamptz and period_start < ?::timestamptz`,
    [from!.toISOString(), to!.toISOString()],
  )) as { amount: string }[];
  const of = { scope: { rows: 'account' as const, accountId: account.accountId } };
  const sums = await sumUsage(orm.em, of, { start: from!, end: to! });
  const sum = sums.find(({ usageType }) => usageType === 'ram_gb_seconds')?.amount;
  return sum === raw!.amount ? `yes: ${sum} MB-milliseconds` : `no: ${sum}, not ${raw!.amount}`;
}

/** Pauses and resumes two sandboxes alternately. The usage of one is already recorded until next year. */
async function transitionTimes() {
  const plans = loadPlans();
  const life = new SandboxLifeRepository(orm.em, plans);
  const em = orm.em.fork();
  const leaseExpiresAt = new Date(Date.now() + 3_600_000);
  em.create(Host, { hostId: newId('host'), region: 'local', regionName: 'Local', leaseExpiresAt });
  await em.flush();
  const { templateId } = await em.findOneOrFail(Template, { name: 'base' });
  const { accountId, userId: ownerUserId, projectId } = account;
  const make = async () => {
    const sandboxId = newId('sandbox');
    const names = { name: 'bench', description: '', templateName: 'base', templateSource: 'platform_family' };
    const commands = { templatePorts: [], templateCustomCommand: null, templateReadyCommand: null };
    const lasting = { timeoutSeconds: 300, autoPause: false, secure: true, allowInternetAccess: false };
    const own = { metadata: {}, envVars: {}, customPorts: [], image: 'builtin:base', ...lasting, ...commands };
    const size = { cpuCount: 2, memoryMb: 512, storageGb: 10 };
    const ids = { sandboxId, accountId, ownerUserId, projectId, templateId };
    await admitSandbox(orm.em.fork(), plans, { ...ids, ...names, ...own, ...size }, anyRegion);
    await life.begin(sandboxId, 1);
    await life.run(sandboxId, { address: '10.0.0.2', agentPort: 1 }, new Date());
    return sandboxId;
  };
  const [metered, unmetered] = [await make(), await make()];
  await em.execute("update sandboxes set metered_until = now() + interval '1 year' where sandbox_id = ?", [unmetered]);
  const times = { metered: [] as number[], unmetered: [] as number[] };
  for (let index = 0; index < transitions; index++) {
    for (const [kind, id] of [
      ['metered', metered],
      ['unmetered', unmetered],
    ] as const) {
      times[kind].push(await timed(() => life.pause(id, 'user_requested', new Date(), true)));
      await life.beginResume(id, index);
      await life.run(id, { address: '10.0.0.2', agentPort: 1 }, new Date());
    }
  }
  return { plain: summarize(times.unmetered), recorded: summarize(times.metered) };
}
