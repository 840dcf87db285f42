import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { breakingChanges, readSchema } from './schema-changes.ts';

/** During an upgrade, processes of the previous release use the new schema. */

/** Migrations up to this one are older than the rule: an upgrade over them stops all processes first. */
const lastBeforeTheRule = '20261224-host-draining';

/** Exceptions by migration: the exact line, and since which release or why no running code is affected. */
const allowed: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '20270122-account-quotas': {
    "adds unique index quota_allocations.quota_allocations_active_account: CREATE UNIQUE INDEX quota_allocations_active_account ON public.quota_allocations USING btree (account_id) WHERE ((status = 'active'::text) AND (user_id IS NULL))":
      'earlier releases add no allocation without a user',
  },
};

let database: TestDatabase;
let url: string;
let orm: Orm;
beforeAll(async () => {
  database = await testDatabase();
  const name = `stepwise_${process.pid}`;
  const admin = new Client({ connectionString: database.url });
  await admin.connect();
  await admin.query(`create database ${name}`);
  await admin.end();
  url = Object.assign(new URL(database.url), { pathname: `/${name}` }).href;
  orm = await createOrm(url, 2, null);
}, 120_000);
afterAll(async () => {
  await orm.close();
  const admin = new Client({ connectionString: database.url });
  await admin.connect();
  await admin.query(`drop database ${new URL(url).pathname.slice(1)} with (force)`);
  await admin.end();
  await database.drop();
});

test('no migration since the rule breaks code of the previous release, except for allowed lines with a reason', async () => {
  await orm.migrator.up({ to: lastBeforeTheRule });
  const pending = (await orm.migrator.getPending()).map(({ name }) => name);
  const found: Record<string, string[]> = {};
  for (const name of pending) {
    const before = await readSchema(orm.em.fork());
    await orm.migrator.up({ to: name });
    const lines = breakingChanges(before, await readSchema(orm.em.fork()));
    if (lines.length > 0) found[name] = lines;
  }
  const wanted = Object.fromEntries(Object.entries(allowed).map(([name, lines]) => [name, Object.keys(lines).sort()]));
  expect(found).toEqual(wanted);
  expect(await orm.migrator.getPending()).toEqual([]);
}, 120_000);

test.each([
  ['alter table hosts drop column region_name', ['removes column hosts.region_name']],
  [
    'alter table hosts rename column region_name to region_title',
    ['adds column hosts.region_title without a default', 'removes column hosts.region_name'],
  ],
  ['alter table hosts add column x text not null', ['adds column hosts.x without a default']],
  ["alter table hosts add column x text not null default ''", []],
  ['alter table hosts add column x text', []],
  ['alter table hosts alter column draining_since set not null', ['makes column hosts.draining_since need a value']],
  ['alter table hosts alter column region_name drop not null', []],
  [
    'alter table api_keys alter column description type varchar(40)',
    ['changes column api_keys.description from text to character varying(40)'],
  ],
  ['create table x (id text primary key, name text not null unique)', []],
  [
    'create unique index x on api_keys (prefix)',
    [expect.stringMatching(/^adds unique index api_keys\.x: CREATE UNIQUE/)],
  ],
  ['create index x on api_keys (prefix)', []],
  [
    "alter table api_keys add constraint x check (name <> '')",
    [expect.stringMatching(/^adds constraint api_keys\.x: CHECK/)],
  ],
  ['drop table idempotency_keys', ['removes table idempotency_keys']],
])('%s', async (statement, lines) => {
  const before = await readSchema(orm.em.fork());
  const change = orm.em.fork().transactional(async (em) => {
    await em.execute(statement);
    throw Object.assign(new Error('undone'), { lines: breakingChanges(before, await readSchema(em)) });
  });
  await expect(change).rejects.toMatchObject({ message: 'undone', lines });
});
