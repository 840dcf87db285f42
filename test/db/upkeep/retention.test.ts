import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { MadeAccount } from '../../../db/accounts/accounts.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import {
  purgeEndedSandboxes,
  purgeEvents,
  purgeNotifications,
  purgeReplies,
  type Retention,
} from '../../../db/upkeep/retention.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

const kept: Retention = {
  eventsDays: 30,
  notificationsDays: 20,
  endedSandboxesDays: 10,
  webhookDeliveriesDays: 30,
  rowsPerAccount: 50,
};
const atOnce = 10;
let database: TestDatabase;
let orm: Orm;
let account: MadeAccount;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  account = (await bootstrap(orm, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' }))!;
  await orm.em.fork().execute(
    `insert into hosts (host_id, region, region_name, cpu_capacity, memory_mb_capacity, disk_gb_capacity, lease_expires_at)
     values ('hst-1', 'local', 'Local', 1, 1, 1, now())`,
  );
});
beforeEach(async () => {
  for (const table of ['events', 'notifications', 'idempotency_keys', 'sandboxes']) {
    await orm.em.fork().execute(`delete from ${table}`);
  }
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const run = (query: string, values: unknown[] = []) => orm.em.fork().execute(query, values);
const names = async (table: string, column: string): Promise<string[]> => {
  const rows = (await run(`select ${column} as name from ${table} order by 1`)) as { name: string }[];
  return rows.map(({ name }) => name);
};

/** @param age of the first event; each further one is a second younger */
function addEvents(prefix: string, count: number, age: string, accountId = account.accountId): Promise<unknown> {
  return run(
    `insert into events (event_id, account_id, object_id, sequence, type, data, created_at)
     select ? || n, ?, ?, n, 't', '{}', now() - ?::interval + n * interval '1 second' from generate_series(1, ?::int) n`,
    [prefix, accountId, prefix, age, count],
  );
}

function addNotifications(prefix: string, count: number, age: string): Promise<unknown> {
  return run(
    `insert into notifications (id, account_id, user_id, title, message, type, category, created_at)
     select ? || n, ?, ?, '', '', '', '', now() - ?::interval from generate_series(1, ?::int) n`,
    [prefix, account.accountId, account.userId, age, count],
  );
}

function addSandbox(
  sandboxId: string,
  has: { status?: string; endedAge?: string; deletedAge?: string; holdsDisk?: boolean },
): Promise<unknown> {
  return run(
    `insert into sandboxes (sandbox_id, account_id, owner_user_id, project_id, name, template_id, template_name,
       template_source, image, cpu_count, memory_mb, storage_gb, timeout_seconds, status, region, host_id, holds_compute,
       holds_disk, ended_at, deleted_at)
     select ?, account_id, owner_user_id, project_id, '', '', '', '', '', 1, 1, 1, 1, ?, 'local', 'hst-1', false, ?,
       now() - ?::interval, now() - ?::interval from projects limit 1`,
    [sandboxId, has.status ?? 'terminated', has.holdsDisk ?? false, has.endedAge ?? null, has.deletedAge ?? null],
  );
}

test('events and notifications are removed after their retention, and younger ones stay', async () => {
  await addEvents('old-', 25, '30 days 1 minute');
  await addEvents('young-', 1, '29 days 23 hours');
  await addNotifications('old-', 25, '20 days 1 minute');
  await addNotifications('young-', 1, '19 days 23 hours');
  expect(await purgeEvents(orm.em, kept, atOnce)).toBe(25);
  expect(await names('events', 'event_id')).toEqual(['young-1']);
  expect(await purgeNotifications(orm.em, kept, atOnce)).toBe(25);
  expect(await names('notifications', 'id')).toEqual(['young-1']);
});

test('an account with too many rows loses its oldest ones, and other accounts lose none', async () => {
  await addEvents('many-', 75, '1 day');
  await addEvents('other-', 50, '2 days', 'acc-other');
  expect(await purgeEvents(orm.em, kept, atOnce)).toBe(25);
  const left = await names('events', 'event_id');
  expect(left).toHaveLength(100);
  for (const [name, isThere] of [
    ['many-25', false],
    ['many-26', true],
    ['many-75', true],
    ['other-1', true],
  ] as const) {
    expect([name, left.includes(name)]).toEqual([name, isThere]);
  }
  expect(await purgeEvents(orm.em, kept, atOnce)).toBe(0);
});

test('ended sandboxes are removed after their retention; a live one, or one that still has a disk, never is', async () => {
  await addSandbox('ended', { endedAge: '10 days 1 minute' });
  await addSandbox('failed', { status: 'failed', endedAge: '10 days 1 minute' });
  await addSandbox('deleted', { endedAge: '10 days 1 minute', deletedAge: '10 days 1 minute' });
  await addSandbox('deleted-later', { endedAge: '10 days 1 minute', deletedAge: '9 days' });
  await addSandbox('ended-later', { endedAge: '9 days' });
  await addSandbox('with-disk', { status: 'failed', endedAge: '300 days', holdsDisk: true });
  await addSandbox('paused', { status: 'paused' });
  expect(await purgeEndedSandboxes(orm.em, kept, atOnce)).toBe(3);
  expect(await names('sandboxes', 'sandbox_id')).toEqual(['deleted-later', 'ended-later', 'paused', 'with-disk']);
});

test('if there are too many ended sandboxes, the oldest are removed; live ones do not count', async () => {
  for (let number = 1; number <= 52; number += 1) {
    const name = `ended-${String(number).padStart(2, '0')}`;
    await addSandbox(name, { endedAge: `${60 - number} minutes` });
  }
  await addSandbox('paused', { status: 'paused' });
  expect(await purgeEndedSandboxes(orm.em, kept, atOnce)).toBe(2);
  const left = await names('sandboxes', 'sandbox_id');
  expect([left.length, left[0], left.at(-1)]).toEqual([51, 'ended-03', 'paused']);
});

test('replies for idempotency keys are removed after 24 hours, finished or not, and if their caller has too many', async () => {
  const add = (caller: string, count: number, age: string, status: number | null) =>
    run(
      `insert into idempotency_keys (caller, key, request_hash, reply_status, created_at)
       select ?, ? || n, 'h', ?::int, now() - ?::interval + n * interval '1 second' from generate_series(1, ?::int) n`,
      [caller, `${age} ${status} `, status, age, count],
    );
  await add('key-1', 25, '24 hours 1 minute', 201);
  await add('key-1', 1, '24 hours 1 minute', null);
  await add('key-1', 1, '23 hours 58 minutes', 201);
  await add('key-2', 60, '1 hour', 201);
  expect(await purgeReplies(orm.em, kept, atOnce)).toBe(36);
  expect(await run('select caller, count(*)::int as count from idempotency_keys group by 1 order by 1')).toEqual([
    { caller: 'key-1', count: 1 },
    { caller: 'key-2', count: 50 },
  ]);
});
