import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import Big from 'big.js';
import fc from 'fast-check';
import { createAccount, type MadeAccount } from '../../../db/accounts/accounts.ts';
import { Project } from '../../../db/accounts/project.entity.ts';
import { loadPlans } from '../../../db/billing/plans.ts';
import {
  beginReconciliation,
  compareLedger,
  countRefusedUsage,
  endReconciliation,
  readLastReconciliation,
} from '../../../db/billing/reconciliations.ts';
import { usagePrices } from '../../../db/billing/usage-prices.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { Host } from '../../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { admitSandbox } from '../../../db/sandboxes/admission.ts';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { SandboxLifeRepository } from '../../../db/sandboxes/sandbox-life.ts';
import { moveSandboxToProject } from '../../../db/sandboxes/sandbox-projects.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { sumUsage, type UsageOf, type UsageSum } from '../../../db/usage/usage-sums.ts';
import {
  adoptUsagePrices,
  keepUsage,
  recordMeasuredUsage,
  recordPausedUsage,
  rollUpUsage,
} from '../../../db/usage/usage-upkeep.ts';
import { anyRegion } from '../../../domain/hosts/placement.ts';
import type { ProjectId, TemplateId } from '../../../domain/ids.ts';
import type { UsageType } from '../../../domain/usage/types.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

/** The recorded usage of sandboxes' lives, and its sums, on a real database. The tests set the times. */
let database: TestDatabase;
let orm: Orm;
let life: SandboxLifeRepository;
let hostId: string;
let templateId: TemplateId;
const plans = loadPlans();

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 6);
  life = new SandboxLifeRepository(orm.em, plans);
  await bootstrap(orm, { email: address(), planName: 'enterprise', baseImage: 'builtin:base' });
  const em = orm.em.fork();
  templateId = (await em.findOneOrFail(Template, { name: 'base' })).templateId;
  hostId = newId('host');
  em.create(Host, { hostId, region: 'local', regionName: 'Local', leaseExpiresAt: new Date(Date.now() + 3_600_000) });
  await em.flush();
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const address = () => `root-${randomBytes(4).toString('hex')}@example.com`;
const newAccount = () =>
  orm.em
    .fork()
    .transactional((em) =>
      createAccount(em, { email: address(), displayName: 'Root', planName: 'enterprise', role: 'user' }),
    );

async function startedSandbox(account: MadeAccount, at: Date, metadata: Record<string, string> = {}): Promise<Sandbox> {
  const { accountId, userId: ownerUserId, projectId } = account;
  const names = { name: 'test', description: '', templateName: 'base', templateSource: 'platform_family' };
  const commands = { templatePorts: [], templateCustomCommand: null, templateReadyCommand: null };
  const lasting = { timeoutSeconds: 300, autoPause: false, secure: true, allowInternetAccess: false };
  const own = { metadata, envVars: {}, customPorts: [], image: 'builtin:base', ...lasting, ...commands };
  const size = { cpuCount: 2, memoryMb: 512, storageGb: 10 };
  const ids = { sandboxId: newId('sandbox'), accountId, ownerUserId, projectId, templateId };
  const { sandbox } = await admitSandbox(orm.em.fork(), plans, { ...ids, ...names, ...own, ...size }, anyRegion);
  await life.begin(sandbox.sandboxId, 1);
  await life.run(sandbox.sandboxId, place, at);
  return sandbox;
}
const place = { address: '10.0.0.2', agentPort: 1 };

const failure = { message: 'gone', exitCode: null, outOfMemory: false, commandOutput: '' };

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const noon = Date.UTC(2026, 4, 4, 12);
const moment = (ms: number) => new Date(noon + ms);
const ofAccount = ({ accountId }: MadeAccount): UsageOf => ({ scope: { rows: 'account', accountId } });
const createWindow = (startMs: number, endMs: number) => ({ start: new Date(startMs), end: new Date(endMs) });
const usual = (type: keyof typeof usagePrices.prices) => new Big(usagePrices.prices[type]!).toFixed();
/** The amount of each type by price. */
async function amounts(account: MadeAccount, startMs: number, endMs: number) {
  const sums = await sumUsage(orm.em, ofAccount(account), createWindow(startMs, endMs), new Date(endMs));
  const byType: Record<string, Record<string, number>> = {};
  for (const { usageType, unitPrice, amount } of sums) {
    byType[usageType] = { ...byType[usageType], [unitPrice]: Number(amount) };
  }
  return byType;
}
const quantities = (sums: UsageSum[]) => Object.fromEntries(sums.map((sum) => [sum.usageType, sum.quantity]));
const readEvents = async (sandboxId: string) =>
  (await orm.em.fork().execute(
    `select usage_type, extract(epoch from period_start)::float8 * 1000 as start, extract(epoch from period_end)::float8 * 1000 as end, amount::float8 as amount,
            project_id from usage_events where resource_id = ? order by period_start, usage_type`,
    [sandboxId],
  )) as { usage_type: string; start: number; end: number; amount: number; project_id: string }[];

describe('a life', () => {
  test('is recorded with its own transitions: cores and memory while it runs, its disk also while it is paused', async () => {
    const account = await newAccount();
    const { sandboxId } = await startedSandbox(account, moment(0));
    await life.pause(sandboxId, 'user_requested', moment(10_500), true);
    await life.beginResume(sandboxId, 2);
    await life.run(sandboxId, place, moment(60_500));
    await life.beginTermination(sandboxId, 'user_requested');
    await life.stop(sandboxId, moment(61_500));
    await life.endTermination(sandboxId, 'completed', moment(70_000), true);
    expect(
      quantities(await sumUsage(orm.em, ofAccount(account), { start: moment(-dayMs), end: moment(dayMs) })),
    ).toEqual({
      cpu_seconds: '23',
      ram_gb_seconds: '5.75',
      sandbox_storage_gb_seconds: '615',
    });
    // A repeated transition adds nothing.
    const before = await readEvents(sandboxId);
    await life.endTermination(sandboxId, 'completed', moment(80_000), true);
    await life.stop(sandboxId, moment(80_000));
    expect(await readEvents(sandboxId)).toEqual(before);
  });

  test('counts in sums while it goes on, and costs what its price says', async () => {
    const account = await newAccount();
    await startedSandbox(account, moment(0));
    const sums = await sumUsage(
      orm.em,
      ofAccount(account),
      { start: moment(500), end: moment(dayMs) },
      moment(1_000_500),
    );
    expect(sums).toEqual([
      { usageType: 'cpu_seconds', amount: '2000000', quantity: '2000', unitPrice: '0.000014', cost: '0.028' },
      { usageType: 'ram_gb_seconds', amount: '512000000', quantity: '500', unitPrice: '0.0000045', cost: '0.00225' },
      {
        usageType: 'sandbox_storage_gb_seconds',
        amount: '10000000',
        quantity: '10000',
        unitPrice: '0.00000003',
        cost: '0.0003',
      },
    ]);
  });

  test('passes from project to project, each with its part', async () => {
    const account = await newAccount();
    const em = orm.em.fork();
    const { accountId, userId } = account;
    const other = newId('project');
    em.create(Project, { projectId: other, accountId, ownerUserId: userId, name: 'other' });
    await em.flush();
    const startedMs = Date.now() - 5000;
    const { sandboxId, projectId } = await startedSandbox(account, new Date(startedMs));
    await moveSandboxToProject(orm.em.fork(), { rows: 'account', accountId }, sandboxId, other);
    const movedMs = Math.max(...(await readEvents(sandboxId)).map(({ end }) => end));
    await life.pause(sandboxId, 'user_requested', new Date(movedMs + 7000), true);
    const cpu = async (id: ProjectId) => {
      const window = { start: new Date(startedMs), end: new Date(movedMs + 7000) };
      const sums = await sumUsage(orm.em, { ...ofAccount(account), projectId: id }, window);
      return quantities(sums).cpu_seconds;
    };
    expect(await cpu(projectId)).toBe(String((2 * (movedMs - startedMs)) / 1000));
    expect(await cpu(other)).toBe('14');
  });

  test('is closed each hour while its host is there', async () => {
    const account = await newAccount();
    const { sandboxId } = await startedSandbox(account, moment(0));
    await life.closeUsage(sandboxId, moment(1.5 * hourMs));
    expect((await readEvents(sandboxId)).length).toBe(6);
    await orm.em.fork().execute("update hosts set lease_expires_at = now() - interval '1 second'");
    await life.closeUsage(sandboxId, moment(2.5 * hourMs));
    expect((await readEvents(sandboxId)).length).toBe(6);
    await life.pause(sandboxId, 'host_restarted', moment(1.75 * hourMs), false);
    // The disk is there regardless of the host.
    await life.closeUsage(sandboxId, moment(2 * hourMs));
    await orm.em.fork().execute("update hosts set lease_expires_at = now() + interval '1 hour'");
    const sums = await sumUsage(orm.em, ofAccount(account), { start: moment(0), end: moment(2 * hourMs) });
    expect(quantities(sums)).toEqual({
      cpu_seconds: String(2 * 1.75 * 3600),
      ram_gb_seconds: String(0.5 * 1.75 * 3600),
      sandbox_storage_gb_seconds: String(10 * 2 * 3600),
    });
  });
});

test('usage that its object cannot have had is not recorded, and shown to operators', async () => {
  const account = await newAccount();
  const { sandboxId } = await startedSandbox(account, moment(0));
  const usedTemplate = newId('template');
  const ms = 60_000;
  const most = {
    cpu_seconds: 2 * ms,
    ram_gb_seconds: 512 * ms,
    sandbox_storage_gb_seconds: 10 * ms,
    traffic_gb: 25_000_000 * ms,
    template_storage_gb_seconds: 4_194_304 * ms,
    cpu_seconds_used: 2 * 2 * 2 * ms,
    ram_gb_seconds_used: 2 * 512 * 2 * ms,
  } satisfies Record<UsageType, number>;
  const add = (type: string, amount: number, at: Date) =>
    orm.em.fork().execute(
      `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount,
                                 unit_price) values (?, ?, ?, '', ?, ?, ?::timestamptz + interval '1 minute', ?, 1)`,
      [
        ...[type.startsWith('template') ? usedTemplate : sandboxId, account.accountId, account.userId],
        ...[type, at.toISOString(), at.toISOString(), amount],
      ],
    );
  const shown = await countRefusedUsage(orm.em);
  for (const [type, amount] of Object.entries(most)) {
    await add(type, amount, moment(0));
    for (const repeat of [1, 2]) await add(type, amount + repeat, moment(ms));
  }
  const events = await orm.em
    .fork()
    .execute('select usage_type, amount::float8 as amount from usage_events where account_id = ?', [account.accountId]);
  expect(Object.fromEntries(events.map((row) => [row.usage_type, row.amount]))).toEqual(most);
  expect(events.length).toBe(7);
  expect(await countRefusedUsage(orm.em)).toBe(shown + 7);
  const reconciliationId = randomBytes(8).toString('hex');
  await beginReconciliation(orm.em, reconciliationId, false);
  await compareLedger(orm.em, reconciliationId);
  await endReconciliation(orm.em, reconciliationId);
  const found = (await readLastReconciliation(orm.em))!.differences.filter(
    ({ accountId }) => accountId === account.accountId,
  );
  expect(found.length).toBe(7);
  expect(found).toContainEqual({
    ...{ kind: 'usage_refused', accountId: account.accountId },
    objectId: `${sandboxId} cpu_seconds 2026-05-04T12:01:00.000Z`,
    ...{ expected: 'at most 120000', found: '120001' },
  });
});

test('events cannot be changed or removed', async () => {
  const account = await newAccount();
  const { sandboxId } = await startedSandbox(account, moment(0));
  await life.pause(sandboxId, 'user_requested', moment(1000), true);
  const em = orm.em.fork();
  for (const change of ['update usage_events set amount = 0', 'delete from usage_events']) {
    await expect(em.execute(`${change} where resource_id = ?`, [sandboxId])).rejects.toThrow(/kept as they are/);
  }
});

/** A life over two days: the events, and whether the sums are moved after each. */
const step = fc.record({
  afterMs: fc.oneof(
    fc.integer({ min: 0, max: 12 * hourMs }),
    fc.integer({ min: 0, max: 5000 }),
    // The clock was set back.
    fc.integer({ min: -hourMs, max: 0 }),
  ),
  act: fc.constantFrom('turn' as const, 'turn' as const, 'close' as const, 'roll up' as const),
});

test('random lives: the sum of any window equals an independent sum, whether it was moved to hours and days or not', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      fc.array(fc.tuple(fc.integer({ min: -hourMs, max: 60 * hourMs }), fc.integer({ min: 0, max: 70 * hourMs })), {
        minLength: 3,
        maxLength: 3,
      }),
      async (lives, ends, windows) => {
        const account = await newAccount();
        const stretches: { kind: string; from: number; to: number }[] = [];
        const openUntil = moment(100 * hourMs);
        for (const steps of lives) {
          const { sandboxId } = await startedSandbox(account, moment(0));
          let [clock, reached, kind, run] = [0, 0, 'running', 1];
          const pass = (to: number) => {
            if (to > reached) stretches.push({ kind, from: noon + reached, to: noon + to });
            reached = Math.max(reached, to);
          };
          for (const { afterMs, act } of steps) {
            clock += afterMs;
            if (act === 'roll up') await rollUpUsage(orm.em, 5);
            else if (act === 'close') await life.closeUsage(sandboxId, moment(clock));
            else if (kind === 'running') await life.pause(sandboxId, 'user_requested', moment(clock), true);
            else {
              run += 1;
              await life.beginResume(sandboxId, run);
              await life.run(sandboxId, place, moment(clock));
            }
            if (act !== 'roll up') pass(clock);
            if (act === 'turn') kind = kind === 'running' ? 'paused' : 'running';
          }
          if (ends) {
            clock += 1234;
            await life.fail(sandboxId, 'host_lost', failure, moment(clock));
            pass(clock);
          } else pass(openUntil.getTime() - noon);
        }
        const sum = (from: number, to: number, kinds: string[]) =>
          stretches
            .filter((each) => kinds.includes(each.kind))
            .reduce((ms, each) => ms + Math.max(0, Math.min(each.to, to) - Math.max(each.from, from)), 0);
        const compare = async () => {
          for (const [from, length] of windows) {
            const [start, end] = [moment(from), moment(from + length)];
            const sums = quantities(await sumUsage(orm.em, ofAccount(account), { start, end }, openUntil));
            const ran = sum(+start, +end, ['running']);
            const lived = sum(+start, +end, ['running', 'paused']);
            expect({
              cpu: Number(sums.cpu_seconds ?? 0),
              ram: Number(sums.ram_gb_seconds ?? 0),
              disk: Number(sums.sandbox_storage_gb_seconds ?? 0),
            }).toEqual({
              cpu: (2 * ran) / 1000,
              ram: ran / 2000,
              disk: (10 * lived) / 1000,
            });
          }
        };
        await compare();
        await rollUpUsage(orm.em);
        await compare();
      },
    ),
    { numRuns: 12 },
  );
}, 120_000);

test('two concurrent moves of sums move each event once', async () => {
  const account = await newAccount();
  const { sandboxId } = await startedSandbox(account, moment(0));
  await life.pause(sandboxId, 'user_requested', moment(40 * hourMs), true);
  await Promise.all([rollUpUsage(orm.em, 7), rollUpUsage(orm.em, 5), rollUpUsage(orm.em, 3)]);
  const [counted] = (await orm.em.fork().execute(
    `select (select count(*)::int from usage_pending) as pending,
            (select sum(amount)::float8 from usage_hours where account_id = ?) as hours,
            (select sum(amount)::float8 from usage_days where account_id = ?) as days,
            (select sum(amount)::float8 from usage_events where account_id = ?) as events`,
    [account.accountId, account.accountId, account.accountId],
  )) as { pending: number; hours: number; days: number; events: number }[];
  expect(counted).toEqual({ pending: 0, hours: counted!.events, days: counted!.events, events: expect.any(Number) });
});

test('after many small rounds a session still finds the events to move by index, without a scan for each', async () => {
  const account = await newAccount();
  const { sandboxId } = await startedSandbox(account, moment(0));
  await orm.em.fork().transactional(async (em) => {
    for (let round = 0; round < 10; round += 1) await em.execute('select roll_up_usage(20000)');
    await em.execute(
      `insert into usage_pending
       select ?, 'cpu_core_seconds', ?::timestamptz + make_interval(hours => n), ?, ?, ?, 1, 0
         from generate_series(1, 5000) n`,
      [sandboxId, moment(0).toISOString(), account.accountId, account.userId, account.projectId],
    );
    const scans = async () => {
      const [table] = await em.execute<{ scans: string }[]>(
        "select seq_scan as scans from pg_stat_xact_user_tables where relname = 'usage_pending'",
      );
      return Number(table!.scans);
    };
    const before = await scans();
    await em.execute('select roll_up_usage(20000)');
    expect((await scans()) - before).toBe(1);
    await em.execute('delete from usage_hours where account_id = ?', [account.accountId]);
    await em.execute('delete from usage_days where account_id = ?', [account.accountId]);
  });
});

describe('a round of upkeep', () => {
  test('records the disks of paused sandboxes, beside their own transitions', async () => {
    const account = await newAccount();
    const startedMs = Date.now() - 5 * hourMs;
    const paused = await Promise.all([1, 2, 3].map(() => startedSandbox(account, new Date(startedMs))));
    const running = await startedSandbox(account, new Date(startedMs));
    for (const { sandboxId } of paused) {
      await life.pause(sandboxId, 'user_requested', new Date(startedMs + hourMs), true);
    }
    const end = new Date();
    await Promise.all([
      recordPausedUsage(orm.em),
      recordPausedUsage(orm.em),
      life.fail(paused[0]!.sandboxId, 'disk_lost', failure, end),
      life.closeUsage(paused[1]!.sandboxId, end),
    ]);
    await recordPausedUsage(orm.em);
    for (const { sandboxId } of paused) {
      const disk = (await readEvents(sandboxId)).filter((event) => event.usage_type === 'sandbox_storage_gb_seconds');
      expect(disk[0]!.start).toBe(startedMs);
      expect(disk.at(-1)!.end).toBeGreaterThanOrEqual(
        sandboxId === paused[0]!.sandboxId ? end.getTime() : end.getTime() - 1000,
      );
      for (const [index, { start, amount, end: upTo }] of disk.entries()) {
        if (index > 0) expect(start).toBe(disk[index - 1]!.end);
        expect(amount).toBe(10 * (upTo - start));
      }
    }
    expect(await readEvents(running.sandboxId)).toEqual([]);
    const sums = await sumUsage(orm.em, ofAccount(account), { start: new Date(0), end }, end);
    expect(quantities(sums).sandbox_storage_gb_seconds).toBe(String((4 * 10 * (end.getTime() - startedMs)) / 1000));
  });

  test('records the traffic, processor time and memory that were measured, each minute once', async () => {
    const account = await newAccount();
    const { sandboxId } = await startedSandbox(account, new Date(Date.now() - hourMs));
    const hour = Math.floor(Date.now() / hourMs) * hourMs - 2 * hourMs;
    const addMinutes = (minutes: number[]) =>
      orm.em.fork().execute(
        `insert into sandbox_metrics_minutes (sandbox_id, sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total,
           mem_used_sum, disk_total, disk_used_sum, received_bytes, sent_bytes)
         select ?, to_timestamp(?::float8 + 60 * minute), 12, 2, 12 * 25, 1, 12 * 1048576 * 100, 1, 1, 1000, 500
           from unnest(?::int[]) minute`,
        [sandboxId, hour / 1000, `{${minutes.join(',')}}`],
      );
    await orm.em
      .fork()
      .execute(
        "select make_metrics_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date)",
      );
    await addMinutes([58, 59, 60]);
    await recordMeasuredUsage(orm.em);
    await recordMeasuredUsage(orm.em);
    await addMinutes([61]);
    await Promise.all([keepUsage(orm.em, 24), recordMeasuredUsage(orm.em)]);
    const window = { start: new Date(hour), end: new Date(hour + 2 * hourMs) };
    const sums = quantities(await sumUsage(orm.em, ofAccount(account), window));
    expect(sums).toMatchObject({
      // A quarter of two cores and 100 MB for four minutes.
      cpu_seconds_used: '120',
      ram_gb_seconds_used: '23.4375',
    });
    expect(Number(sums.traffic_gb)).toBe(6000 / 1024 ** 3);
    const periods = (await readEvents(sandboxId)).filter((event) => event.usage_type === 'traffic_gb');
    expect(periods.map(({ start, end }) => [start - hour, end - hour])).toEqual([
      [58 * 60_000, 60 * 60_000],
      [60 * 60_000, 61 * 60_000],
      [61 * 60_000, 62 * 60_000],
    ]);
  });

  test('records traffic from the creation of the sandbox on, and at the price before a change of prices', async () => {
    const account = await newAccount();
    const { sandboxId } = await startedSandbox(account, new Date(Date.now() - hourMs));
    const hour = Math.floor(Date.now() / hourMs) * hourMs - hourMs;
    const em = orm.em.fork();
    await em.execute('update sandboxes set created_at = to_timestamp(?::float8) where sandbox_id = ?', [
      hour / 1000 + 30,
      sandboxId,
    ]);
    const addMinute = (minute: number) =>
      orm.em.fork().execute(
        `insert into sandbox_metrics_minutes (sandbox_id, sampled_at, samples, cpu_count, cpu_used_pct_sum, mem_total,
           mem_used_sum, disk_total, disk_used_sum, received_bytes, sent_bytes)
         values (?, to_timestamp(?::float8), 12, 2, 1, 1, 1, 1, 1, 1000, 500)`,
        [sandboxId, hour / 1000 + 60 * minute],
      );
    await em.execute(
      "select make_metrics_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date)",
    );
    await recordMeasuredUsage(orm.em);
    const dear = { ...usagePrices, prices: { ...usagePrices.prices, traffic_gb: '7' } };
    await addMinute(0);
    await recordMeasuredUsage(orm.em, dear);
    await addMinute(1);
    await recordMeasuredUsage(orm.em);
    await addMinute(2);
    await recordMeasuredUsage(orm.em);
    const events = await em.execute(
      `select (extract(epoch from period_start) - ?::float8)::int as since, trim_scale(unit_price)::text as price
         from usage_events where resource_id = ? and usage_type = 'traffic_gb' order by 1`,
      [hour / 1000, sandboxId],
    );
    const usual = String(Number(usagePrices.prices.traffic_gb));
    expect(events).toEqual([
      { since: 30, price: usual },
      { since: 60, price: '7' },
      { since: 120, price: usual },
    ]);
  });

  test('a change of prices cuts the open hour: cores, memory and disk before it keep the old prices', async () => {
    const account = await newAccount();
    const startedMs = Date.now() - hourMs / 2;
    const [running, paused] = [
      await startedSandbox(account, new Date(startedMs)),
      await startedSandbox(account, new Date(startedMs)),
    ];
    await life.pause(paused.sandboxId, 'user_requested', new Date(startedMs + 1000), true);
    const dear = { cpu_seconds: '3', ram_gb_seconds: '5', sandbox_storage_gb_seconds: '7' };
    await recordMeasuredUsage(orm.em, { ...usagePrices, prices: { ...usagePrices.prices, ...dear } });
    const [{ at: changedMs }] = (await orm.em
      .fork()
      .execute(
        "select round(extract(epoch from since) * 1000)::float8 as at from usage_price_periods where usage_type = 'cpu_seconds' and until = 'infinity'",
      )) as [{ at: number }];
    try {
      const endMs = changedMs + 10_000;
      const before = changedMs - startedMs;
      const expected = {
        cpu_seconds: { [usual('cpu_seconds')]: 2 * (before + 1000), 3: 2 * 10_000 },
        ram_gb_seconds: { [usual('ram_gb_seconds')]: 512 * (before + 1000), 5: 512 * 10_000 },
        sandbox_storage_gb_seconds: { [usual('sandbox_storage_gb_seconds')]: 10 * 2 * before, 7: 10 * 2 * 10_000 },
      };
      // Of living sandboxes, of recorded usage, and after the move to the sums of hours.
      expect(await amounts(account, startedMs, endMs)).toEqual(expected);
      await life.closeUsage(running.sandboxId, new Date(endMs));
      await life.closeUsage(paused.sandboxId, new Date(endMs));
      expect(await amounts(account, startedMs, endMs)).toEqual(expected);
      await rollUpUsage(orm.em);
      expect(await amounts(account, startedMs, endMs)).toEqual(expected);
      const cost = (await sumUsage(orm.em, ofAccount(account), createWindow(startedMs, endMs), new Date(endMs))).reduce(
        (sum, each) => sum.plus(each.cost),
        new Big(0),
      );
      const perUnit = { cpu_seconds: 1000, ram_gb_seconds: 1024 * 1000, sandbox_storage_gb_seconds: 1000 };
      const exact = Object.entries(expected).flatMap(([type, byPrice]) =>
        Object.entries(byPrice).map(([price, amount]) =>
          new Big(price).times(amount).div(perUnit[type as 'cpu_seconds']),
        ),
      );
      expect(cost.toFixed(12)).toBe(exact.reduce((sum, each) => sum.plus(each), new Big(0)).toFixed(12));
      // An end that is reported late, and was before the change, has the old prices.
      const late = await startedSandbox(account, new Date(startedMs));
      await life.fail(late.sandboxId, 'host_lost', failure, new Date(changedMs - 1));
      const prices = await orm.em
        .fork()
        .execute('select distinct unit_price::text as price from usage_events where resource_id = ? order by 1', [
          late.sandboxId,
        ]);
      expect(prices.map(({ price }) => price)).not.toEqual(expect.arrayContaining(['3']));
    } finally {
      await recordMeasuredUsage(orm.em);
    }
  });

  test('of paused disks cuts the hour at a change of prices, too', async () => {
    const account = await newAccount();
    const startedMs = Date.now() - 2 * hourMs;
    const { sandboxId } = await startedSandbox(account, new Date(startedMs));
    await life.pause(sandboxId, 'user_requested', new Date(startedMs + 1), true);
    const dear = { ...usagePrices, prices: { ...usagePrices.prices, sandbox_storage_gb_seconds: '9' } };
    expect(await adoptUsagePrices(orm.em, dear)).toBe(true);
    expect(await adoptUsagePrices(orm.em, dear)).toBe(false);
    try {
      await recordPausedUsage(orm.em);
      const disk = (await orm.em.fork().execute(
        `select e.unit_price::float8 as price, p.unit_price::float8 as valid, amount::float8 as amount,
                round(extract(epoch from period_start) * 1000)::float8 as start,
                round(extract(epoch from period_end) * 1000)::float8 as end
           from usage_events e left join usage_price_periods p on p.usage_type = e.usage_type
            and p.since <= e.period_start and p.until >= e.period_end
          where resource_id = ? and e.usage_type = 'sandbox_storage_gb_seconds' order by period_start`,
        [sandboxId],
      )) as { price: number; valid: number | null; amount: number; start: number; end: number }[];
      expect([disk[0]!.price, disk.at(-1)!.price]).toEqual([Number(usual('sandbox_storage_gb_seconds')), 9]);
      for (const [index, { price, valid, amount, start, end }] of disk.entries()) {
        expect([price, amount]).toEqual([valid, Math.round(10 * (end - start))]);
        expect(start).toBe(index === 0 ? startedMs : disk[index - 1]!.end);
      }
    } finally {
      expect(await adoptUsagePrices(orm.em)).toBe(true);
    }
  });

  test('records the images of templates, by the size and owner that they had', async () => {
    const account = await newAccount();
    const { accountId, userId } = account;
    const em = orm.em.fork();
    const templateId = newId('template');
    const bytes = (mb: number) => mb * 1024 ** 2;
    em.create(Template, {
      templateId,
      accountId,
      ownerUserId: userId,
      name: 'own',
      visibility: 'private',
      templateSource: 'custom',
      status: 'available',
      defaultCpuCount: 1,
      defaultMemoryMb: 512,
      ports: [],
      registryImageUrl: 'registry/own:1',
      imageSizeBytes: bytes(2048),
    });
    await em.flush();
    const cursor = async (back = 0): Promise<number> => {
      const [row] = (await orm.em.fork().execute(
        `update usage_cursors set metered_until = metered_until - make_interval(secs => ?) where resource_id = ?
         returning extract(epoch from metered_until)::float8 * 1000 as at`,
        [back, templateId],
      )) as { at: number }[];
      return row!.at;
    };
    // Simulates that it was made three hours ago.
    const since = await cursor(3 * 3600);
    await orm.em
      .fork()
      .execute('update templates set image_size_bytes = ? where template_id = ?', [bytes(1024), templateId]);
    const changed = await cursor();
    expect(changed - since).toBeGreaterThanOrEqual(3 * hourMs);
    await recordMeasuredUsage(orm.em);
    const closed = await cursor();
    await orm.em.fork().execute('delete from templates where template_id = ?', [templateId]);
    const events = await readEvents(templateId);
    const ended = events.at(-1)!.end;
    const sum = await sumUsage(orm.em, ofAccount(account), { start: new Date(since), end: new Date(ended) });
    expect(ended).toBeGreaterThanOrEqual(closed);
    expect(quantities(sum)).toEqual({
      template_storage_gb_seconds: String((2 * (changed - since) + (ended - changed)) / 1000),
    });
    // One second is a part of an event.
    const part = await sumUsage(orm.em, ofAccount(account), { start: new Date(since), end: new Date(since + 1000) });
    expect(quantities(part)).toEqual({ template_storage_gb_seconds: '2' });
  });
});
