import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { bootstrap } from '../../db/bootstrap.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { grantRuntimeRole } from '../../db/runtime-role.ts';
import { makeMetricsPartitions, makeWebhookPartitions } from '../../db/upkeep/maintenance.ts';
import { purgeSignIns } from '../../db/upkeep/retention.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let owner: Orm;
let runtime: Orm;
const role = `runtime_${process.pid}`;
const old = "now() - interval '366 days'";

beforeAll(async () => {
  database = await testDatabase();
  owner = await createOrm(database.url, 2);
  const url = new URL(database.url);
  [url.username, url.password] = [role, 'a/pass:word@'];
  await grantRuntimeRole(owner, url.href);
  // Each start does this.
  await grantRuntimeRole(owner, url.href);
  await bootstrap(owner, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' });
  runtime = await createOrm(url.href, 2);
});
afterAll(async () => {
  await runtime.close();
  await owner.em.fork().execute(`drop owned by ${role}; drop role ${role}`);
  await owner.close();
  await database.drop();
});

const run = (sql: string) => runtime.em.fork().execute(sql);
const addEvent = (id: string, at = 'now()') =>
  run(
    `insert into audit_events (event_id, address, request_id, action, created_at) values ('${id}', 'a', 'r', 'x', ${at})`,
  );

test('the runtime role adds audit events and reads them, and can do nothing else with them', async () => {
  await addEvent('aud-1');
  for (const sql of [
    "update audit_events set action = 'y'",
    `delete from audit_events where created_at < ${old}`,
    'truncate audit_events',
    'alter table audit_events disable trigger all',
    'drop trigger audit_events_kept on audit_events',
    'drop table audit_events',
    "alter function purge_audit_events(integer) set search_path = ''",
    'create or replace function keep_audit_events() returns trigger language plpgsql as $$ begin return old; end $$',
    "delete from platform_migrations where name like '%audit%'",
    `grant ${role} to postgres`,
    'set role postgres',
  ]) {
    await expect(run(sql)).rejects.toThrow(/permission denied|must be (owner|able)|read-only/);
  }
  expect(await run('select event_id from audit_events')).toEqual([{ event_id: 'aud-1' }]);
});

test('the runtime role adds to the ledger and reads it, and can do nothing else with it', async () => {
  for (const table of ['ledger_transactions', 'ledger_entries']) {
    expect(await run(`select count(*)::int as n from ${table}`)).toEqual([{ n: 0 }]);
    for (const sql of [
      `update ${table} set currency = 'EUR'`,
      `delete from ${table}`,
      `truncate ${table}`,
      `alter table ${table} disable trigger all`,
      'create or replace function keep_ledger() returns trigger language plpgsql as $$ begin return old; end $$',
    ]) {
      await expect(run(sql)).rejects.toThrow(/permission denied|must be (owner|able)/);
    }
  }
});

test('the purge, which runs as the owner, removes what is older than a year and nothing else', async () => {
  await addEvent('aud-2');
  for (let index = 0; index < 5; index++) await addEvent(`aud-old-${index}`, old);
  expect(await purgeSignIns(runtime.em, 2)).toBe(5);
  expect(await run("select event_id from audit_events where event_id like 'aud-old-%'")).toEqual([]);
  expect(await run("select event_id from audit_events where event_id = 'aud-2'")).toHaveLength(1);
});

test('it may use every other table, and may have partitions of metrics made', async () => {
  const tables = (await run(
    `select c.relname as name, has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
            and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete') as everything
       from pg_class c where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
        and not c.relispartition`,
  )) as { name: string; everything: boolean }[];
  const limited = tables.filter(({ everything }) => !everything).map(({ name }) => name);
  expect(limited.sort()).toEqual([
    'audit_events',
    'last_hop_revocations',
    'ledger_entries',
    'ledger_transactions',
    'platform_migrations',
    'subscription_changes',
    'usage_events',
  ]);
  await owner.em.fork().execute('select drop_metrics_partitions(current_date + 100)');
  expect(await makeMetricsPartitions(runtime.em)).toBeGreaterThan(0);
  await owner.em.fork().execute('select drop_webhook_partitions(current_date + 100)');
  expect(await makeWebhookPartitions(runtime.em)).toBeGreaterThan(0);
  await run(`insert into outbox (workflow_type, workflow_id, input) values ('sandbox', 'sbx-x', '{}')`);
});

test('the error of a missing role that cannot be made names the role', async () => {
  const missing = new URL(database.url);
  missing.username = 'nobody_there';
  missing.password = '';
  await expect(grantRuntimeRole(owner, missing.href)).rejects.toThrow('no password for its role nobody_there');
  const asRuntime = new URL(database.url);
  asRuntime.username = 'nobody_there';
  await expect(grantRuntimeRole(runtime, asRuntime.href)).rejects.toThrow('as a superuser: create role');
});
