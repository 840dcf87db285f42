import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { MadeAccount } from '../../../db/accounts/accounts.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { grantRuntimeRole } from '../../../db/runtime-role.ts';
import { sumUsage } from '../../../db/usage/usage-sums.ts';
import { dropOldUsage, rollUpUsage } from '../../../db/usage/usage-upkeep.ts';
import { addUsage } from '../../support/added-usage.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

let database: TestDatabase;
let owner: Orm;
let runtime: Orm;
let account: MadeAccount;
const role = `retention_${process.pid}`;

beforeAll(async () => {
  database = await testDatabase();
  owner = await createOrm(database.url, 2);
  const url = new URL(database.url);
  [url.username, url.password] = [role, 'password'];
  await grantRuntimeRole(owner, url.href);
  account = (await bootstrap(owner, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' }))!;
  runtime = await createOrm(url.href, 2);
});
afterAll(async () => {
  await runtime.close();
  await owner.em.fork().execute(`drop owned by ${role}; drop role ${role}`);
  await owner.close();
  await database.drop();
});

/** The first day of the month that is so many months before this one. */
function monthsAgo(count: number): Date {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - count, 1));
}

const run = (sql: string, values: unknown[] = []) => owner.em.fork().execute(sql, values);
const partitions = async () => {
  const rows = (await run(
    `select right(inhrelid::regclass::text, 8) as month from pg_inherits
      where inhparent = 'usage_events'::regclass and inhrelid <> 'usage_events_default'::regclass order by 1`,
  )) as unknown as { month: string }[];
  return rows.map(({ month }) => month);
};
const formatName = (month: Date) => month.toISOString().slice(0, 10).replaceAll('-', '');
const costIn = async (month: Date, next: Date) => {
  const of = { scope: { rows: 'account' as const, accountId: account.accountId } };
  const sums = await sumUsage(runtime.em, of, { start: month, end: next });
  return sums.map(({ cost }) => cost);
};

beforeEach(async () => {
  for (const months of [26, 25, 24]) {
    const day = monthsAgo(months).toISOString().slice(0, 10);
    await run('select make_usage_partitions(?::date, ?::date)', [day, day]);
  }
});

test('the runtime role removes months that ended long ago, one partition each, and their sums stay', async () => {
  const [oldest, old, kept] = [monthsAgo(26), monthsAgo(25), monthsAgo(24)];
  for (const [month, cost] of [
    [oldest, '1.5'],
    [old, '2.25'],
    [kept, '4'],
  ] as const) {
    await addUsage(owner.em, account.accountId, cost, new Date(month.getTime() + 10 * 86_400_000));
  }
  await rollUpUsage(runtime.em);
  expect(await dropOldUsage(runtime.em, 24)).toBe(2);
  expect(await dropOldUsage(runtime.em, 24)).toBe(0);
  const left = await partitions();
  expect(left).toContain(formatName(kept));
  for (const month of [oldest, old]) expect(left).not.toContain(formatName(month));
  expect([await costIn(oldest, old), await costIn(old, kept), await costIn(kept, monthsAgo(23))]).toEqual([
    ...[['1.5'], ['2.25'], ['4']],
  ]);
  const events = (await run('select count(*)::int as n from usage_events')) as unknown as { n: number }[];
  expect(events[0]!.n).toBe(1);
});

test('a month with an event that is not yet in a sum stays', async () => {
  await addUsage(owner.em, account.accountId, '1', new Date(monthsAgo(25).getTime() + 86_400_000));
  expect(await dropOldUsage(runtime.em, 24)).toBe(1);
  expect(await partitions()).toContain(formatName(monthsAgo(25)));
  await rollUpUsage(runtime.em);
  expect(await dropOldUsage(runtime.em, 24)).toBe(1);
});

test('a month that overlaps a draft of an invoice stays', async () => {
  await run(
    `insert into invoices (invoice_id, account_id, kind, period_start, period_end, plan, currency, tax_rate)
     values ('inv-draft', ?, 'period', ?, ?, '{}', 'USD', 0)`,
    [account.accountId, monthsAgo(25).toISOString(), monthsAgo(24).toISOString()],
  );
  expect(await dropOldUsage(runtime.em, 24)).toBe(1);
  expect(await partitions()).toContain(formatName(monthsAgo(25)));
  await run("delete from invoices where invoice_id = 'inv-draft'");
  expect(await dropOldUsage(runtime.em, 24)).toBe(1);
});
