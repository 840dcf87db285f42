import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { MadeAccount } from '../../../db/accounts/accounts.ts';
import { loadPlans } from '../../../db/billing/plans.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { Host } from '../../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { admitSandbox } from '../../../db/sandboxes/admission.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import {
  addUpMinutes,
  insertSamples,
  type MeteredUsage,
  readMetrics,
  readUsageAverages,
  sandboxesSampledSince,
} from '../../../db/usage/sandbox-metrics.ts';
import { anyRegion } from '../../../domain/hosts/placement.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
let account: MadeAccount;
let hostId: string;

const mib = 1024 ** 2;
/** Noon of today, so that the hours around it are in existing partitions. */
const noon = new Date(new Date().setUTCHours(12, 0, 0, 0));
const at = (seconds: number) => new Date(noon.getTime() + seconds * 1000);

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  const email = `root-${randomBytes(4).toString('hex')}@example.com`;
  account = (await bootstrap(orm, { email, planName: 'pro', baseImage: 'builtin:base' }))!;
  hostId = newId('host');
  const em = orm.em.fork();
  em.create(Host, {
    hostId,
    region: 'local',
    regionName: 'Local',
    cpuCapacity: 1000,
    memoryMbCapacity: 1_000_000,
    diskGbCapacity: 100_000,
    leaseExpiresAt: new Date(Date.now() + 3_600_000),
  });
  await em.flush();
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

/** Adds a sandbox with two cores and 512 MB. */
async function sandbox(): Promise<SandboxId> {
  const { templateId } = await orm.em.fork().findOneOrFail(Template, { name: 'base' });
  const { sandbox: row } = await admitSandbox(
    orm.em.fork(),
    loadPlans(),
    {
      sandboxId: newId('sandbox'),
      accountId: account.accountId,
      ownerUserId: account.userId,
      projectId: account.projectId,
      name: 'measured',
      description: '',
      templateId,
      templateName: 'base',
      templateSource: 'platform_family',
      templatePorts: [],
      templateCustomCommand: null,
      templateReadyCommand: null,
      image: 'builtin:base',
      cpuCount: 2,
      memoryMb: 512,
      storageGb: 1,
      timeoutSeconds: 300,
      autoPause: false,
      secure: true,
      allowInternetAccess: true,
      metadata: {},
      envVars: {},
      customPorts: [],
    },
    anyRegion,
  );
  return row.sandboxId;
}

const usage = (sandboxId: SandboxId, change: Partial<MeteredUsage> = {}): MeteredUsage => ({
  sandboxId,
  cpuSeconds: 5,
  overSeconds: 5,
  memoryBytes: 100 * mib,
  diskBytes: 10 * mib,
  diskTotalBytes: 1000 * mib,
  receivedBytes: 500,
  sentBytes: 200,
  ...change,
});
const read = (sandboxId: SandboxId, from: number, to: number, stepSeconds: number, now = at(86_400)) =>
  readMetrics(orm.em, sandboxId, { start: at(from), end: at(to), stepSeconds }, now);

test('a sample is percent of all the cores the sandbox has, and never more than it has', async () => {
  const [calm, wild] = [await sandbox(), await sandbox()];
  await insertSamples(orm.em, at(0), [
    usage(calm),
    usage(wild, { cpuSeconds: 12, memoryBytes: 600 * mib }),
    usage('sbx-unknown'),
  ]);
  expect(await read(calm, 0, 4, 5)).toEqual([
    {
      at: at(0),
      cpuCount: 2,
      cpuUsedPct: 50,
      memTotal: 512 * mib,
      memUsed: 100 * mib,
      diskTotal: 1000 * mib,
      diskUsed: 10 * mib,
    },
  ]);
  expect((await read(wild, 0, 4, 5))[0]).toMatchObject({ cpuUsedPct: 100, memUsed: 512 * mib });
  expect(await read('sbx-unknown', 0, 4, 5)).toEqual([]);
  await insertSamples(orm.em, at(0), [usage(calm, { cpuSeconds: 0 })]);
  expect((await read(calm, 0, 4, 5))[0]!.cpuUsedPct).toBe(50);
});

test('a step is the mean of its samples, and one without samples is left out', async () => {
  const id = await sandbox();
  for (const [second, cpuSeconds] of [
    [0, 0],
    [5, 10],
    [10, 5],
    [30, 2],
  ] as const) {
    await insertSamples(orm.em, at(second), [usage(id, { cpuSeconds })]);
  }
  const steps = await read(id, 0, 59, 15);
  expect(steps.map(({ at: when, cpuUsedPct }) => [when, cpuUsedPct])).toEqual([
    [at(0), 50],
    [at(30), 20],
  ]);
});

test('sums of minutes and of quarter hours equal their samples, also at edges within them', async () => {
  const id = await sandbox();
  for (let second = 0; second < 3900; second += 5) {
    const change = {
      cpuSeconds: (second * 7) % 11,
      memoryBytes: (100 + 12 * (second % 13)) * mib,
      diskBytes: second * mib,
    };
    await insertSamples(orm.em, at(second), [usage(id, change)]);
  }
  const before = new Map<string, unknown>();
  const ranges: [from: number, to: number, stepSeconds: number][] = [
    [0, 1199, 60],
    [33, 1100, 300],
    [10, 50, 60],
    [61, 119, 60],
    [0, 1199, 900],
    [120, 600, 120],
    [0, 3599, 900],
    [33, 3877, 900],
    [61, 899, 900],
    [899, 2701, 1800],
    [0, 3899, 3600],
  ];
  for (const range of ranges) {
    // Read at that time, when no minute had been over for long enough.
    before.set(String(range), await read(id, ...range, at(0)));
  }
  // A quarter of an hour is summed up in parts, and each minute is added once.
  for (const [from, to] of [
    [0, 60],
    [0, 840],
    [780, 1200],
    [1200, 3900],
    [0, 3900],
  ] as const) {
    await addUpMinutes(orm.em, [id], at(from), at(to));
  }
  for (const range of ranges) expect(await read(id, ...range)).toEqual(before.get(String(range)));
  const em = orm.em.fork();
  const sums = async (table: string) => {
    const [row] = await em.execute(
      `select count(*)::int as rows, sum(samples)::int as samples, sum(received_bytes)::int as received, sum(sent_bytes)::int as sent
         from ${table} where sandbox_id = ?`,
      [id],
    );
    return row;
  };
  const all = { samples: 780, received: 780 * 500, sent: 780 * 200 };
  expect(await sums('sandbox_metrics_minutes')).toEqual({ rows: 65, ...all });
  expect(await sums('sandbox_metrics_quarters')).toEqual({ rows: 5, ...all });
  // Without samples the minutes must be enough, and without minutes the quarters.
  await em.execute('delete from sandbox_metrics where sandbox_id = ?', [id]);
  expect(await read(id, 0, 1200, 60)).toEqual(before.get('0,1199,60'));
  await em.execute('delete from sandbox_metrics_minutes where sandbox_id = ?', [id]);
  expect(await read(id, 0, 3600, 900)).toEqual(before.get('0,3599,900'));
});

describe('averages over the sandboxes of a caller', () => {
  test('weight each running sandbox equally and ignore samples older than a minute', async () => {
    const ids = [await sandbox(), await sandbox(), await sandbox()];
    await orm.em.fork().execute("update sandboxes set status = 'running' where sandbox_id in (?, ?)", [ids[0], ids[1]]);
    const scope = { rows: 'account' as const, accountId: account.accountId };
    expect(await readUsageAverages(orm.em.fork(), scope, at(7200))).toEqual({ cpuPct: null, memoryPct: null });
    await insertSamples(orm.em, at(7100), [usage(ids[0]!, { cpuSeconds: 10 })]);
    for (const second of [7190, 7195, 7200]) await insertSamples(orm.em, at(second), [usage(ids[0]!)]);
    await insertSamples(orm.em, at(7200), [
      usage(ids[1]!, { cpuSeconds: 1, memoryBytes: 256 * mib }),
      usage(ids[2]!, { cpuSeconds: 10 }),
    ]);
    const averages = await readUsageAverages(orm.em.fork(), scope, at(7200));
    expect(averages).toEqual({ cpuPct: 30, memoryPct: 34.77 });
    const other = { rows: 'account', accountId: 'acc-other' } as const;
    expect((await readUsageAverages(orm.em.fork(), other, at(7200))).cpuPct).toBeNull();
  });
});

test('a starting host finds the sandboxes whose minutes may still have to be summed up', async () => {
  const [held, ended] = [await sandbox(), await sandbox()];
  await orm.em
    .fork()
    .execute(
      "update sandboxes set holds_compute = false, updated_at = now() - interval '2 hours' where sandbox_id = ?",
      [ended],
    );
  const known = await sandboxesSampledSince(orm.em, hostId, new Date(Date.now() - 3_600_000));
  expect(known).toContain(held);
  expect(known).not.toContain(ended);
});
