import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Migration } from '@mikro-orm/migrations';
import { Client } from 'pg';
import { migrations } from '../../db/migrations/index.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { breakingChanges, readSchema } from './schema-changes.ts';

/** During an upgrade, processes of the previous release use the new schema. */

/** The last migration of the first release. No earlier code exists that could use the schema before it. */
const lastOfFirstRelease = '0010-upkeep';

/** Exceptions by migration: the exact line, and since which release or why no running code is affected. */
const allowed: Readonly<Record<string, Readonly<Record<string, string>>>> = {};

class RemovesColumn extends Migration {
  override up(): void {
    this.addSql('alter table hosts drop column region_name');
  }
}

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

/** Runs the migrations one by one. @returns the breaking changes of each one that has some */
async function breakingMigrations(of: Orm): Promise<Record<string, string[]>> {
  await of.migrator.up({ to: lastOfFirstRelease });
  const found: Record<string, string[]> = {};
  for (const { name } of await of.migrator.getPending()) {
    const before = await readSchema(of.em.fork());
    await of.migrator.up({ to: name });
    const lines = breakingChanges(before, await readSchema(of.em.fork()));
    if (lines.length > 0) found[name] = lines;
  }
  expect(await of.migrator.getPending()).toEqual([]);
  return found;
}

test('no migration after the first release breaks code of the previous release, except for allowed lines with a reason', async () => {
  const wanted = Object.fromEntries(Object.entries(allowed).map(([name, lines]) => [name, Object.keys(lines).sort()]));
  expect(await breakingMigrations(orm)).toEqual(wanted);
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

test('a migration that removes a column is found', async () => {
  const name = '9999-removes-column';
  const extended = await createOrm(url, 2, null);
  try {
    extended.config.get('migrations').migrationsList = [...migrations, { name, class: RemovesColumn }];
    expect(await breakingMigrations(extended)).toMatchObject({ [name]: ['removes column hosts.region_name'] });
  } finally {
    await extended.close();
  }
});
