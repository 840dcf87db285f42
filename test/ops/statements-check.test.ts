import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { checkStatements, type Examples } from '../../ops/development/check/statements/check.ts';
import { checkFunctions } from '../../ops/development/check/statements/functions.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let root: string;
beforeAll(async () => {
  database = await testDatabase();
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'statements-'));
  fs.mkdirSync(path.join(root, 'db'));
  const compilerOptions = { strict: true, module: 'nodenext', noEmit: true, types: [] };
  fs.writeFileSync(path.join(root, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
});
afterAll(async () => {
  fs.rmSync(root, { recursive: true, force: true });
  await database.drop();
});

const noExamples: Examples = { send: async () => {}, madeUp: {}, unchecked: [] };

/** The findings about one call, without its place. */
async function readFindings(call: string, before = ''): Promise<string[]> {
  const declaration = 'declare function query<Row = {}>(em: null, sql: string, values?: unknown[]): Row[];';
  fs.writeFileSync(path.join(root, 'db/seeded.ts'), `${declaration}\n${before}\n${call};\nexport {};\n`);
  const findings = await checkStatements({ root, folders: ['db'], databaseUrl: database.url, examples: noExamples });
  return findings.map((finding) => finding.replace(/^db\/seeded\.ts:\d+:\d+: /, ''));
}

test.each([
  [
    'a statement that agrees with its row',
    "query<{ user_id: string; text: string | null }>(null, 'select user_id, description as text from users where email = ?', ['a'])",
    [],
  ],
  ['a misspelt column', "query(null, 'select 1 from users where emial = ?', ['a'])", ['column "emial" does not exist']],
  ['a misspelt table', "query(null, 'delete from userz')", ['relation "userz" does not exist']],
  [
    'a 64-bit integer, which arrives as a string',
    "query<{ running_ms: number }>(null, 'select running_ms from sandboxes')",
    ['running_ms is bigint, which arrives as string, but is declared as number'],
  ],
  [
    'a time, which arrives as a string',
    "query<{ at: Date }>(null, 'select created_at as at from users')",
    ['at is timestamp with time zone, which arrives as string, but is declared as Date'],
  ],
  [
    'a nullable column',
    "query<{ host_id: string; full_disk: string }>(null, 'select host_id, full_disk from hosts')",
    ['full_disk may be null, but is declared as string'],
  ],
  [
    'a column of the nullable side of a join, through a common table expression',
    `query<{ status: string }>(null,
      'with held as (select s.status from accounts a left join subscriptions s using (account_id)) select status from held')`,
    ['status may be null, but is declared as string'],
  ],
  [
    'a recursive query that takes a column from a nullable one whose nulls it excludes',
    `query<{ a: string }>(null, \`with recursive each_host(a, b) as (
        select host_id, full_disk from hosts union all select b, a from each_host where b > 'a')
      select a from each_host\`)`,
    [],
  ],
  [
    'a column that a recursive query takes from a nullable one',
    `query<{ a: string }>(null, \`with recursive each_host(a, b) as (
        select host_id, full_disk from hosts union select b, a from each_host)
      select a from each_host\`)`,
    ['a may be null, but is declared as string'],
  ],
  [
    'an aggregate, which is null without rows',
    "query<{ most: number }>(null, 'select max(cpu_count) as most from sandboxes')",
    ['most may be null, but is declared as number'],
  ],
  [
    'a column that is not declared',
    "query<{ user_id: string }>(null, 'select user_id, email from users')",
    ['email is selected but not declared'],
  ],
  [
    'a column without any declared row',
    "query(null, 'select email from users')",
    ['email is selected but not declared'],
  ],
  [
    'a column that is not selected',
    "query<{ user_id: string; email: string }>(null, 'select user_id from users')",
    ['email is declared but not selected'],
  ],
  [
    'a column that hides another one',
    "query<{ status: string }>(null, 'select u.status, a.status from users u join accounts a using (account_id)')",
    ['the column status is selected twice'],
  ],
  [
    'a value of another type',
    "query(null, 'delete from users where email = ?', [1])",
    ['the value 1 must be text, but may be number'],
  ],
  [
    'a missing value',
    "query(null, 'delete from users where user_id = ? and email = ?', ['a'])",
    ['2 values are wanted, but 1 are given'],
  ],
])('%s', async (_name, call, findings) => {
  expect(await readFindings(call)).toEqual(findings);
});

test.each([
  [
    'columns that are never null, and conditions that exclude null',
    `query<{ region: string; disk: string; count: string; name: string; new_run: number }>(null,
      \`with changed as (update sandboxes set run = 1 where sandbox_id = ? returning run, host_id)
        select h.region, h.full_disk as disk, count(*) over () as count, coalesce(h.full_disk, 'none') as name, c.run as new_run
          from changed c join hosts h on h.host_id = c.host_id where h.full_disk is not null\`, ['a'])`,
  ],
  ['a value that is not null', "query<{ text: string }>(null, 'select ?::text as text', ['a'])"],
])('no finding for %s', async (_name, call) => {
  expect(await readFindings(call)).toEqual([]);
});

test('each text of a statement is checked', async () => {
  const column = "const column = Math.random() > 0.5 ? 'email' : 'emial';";
  expect(await readFindings('query(null, `select 1 from users where ${column} = ?`, ["a"])', column)).toEqual([
    'column "emial" does not exist',
  ]);
});

test('a text that is not constant needs an example', async () => {
  const condition = 'declare const condition: string;';
  expect(await readFindings('query(null, `select 1 from users where ${condition}`)', condition)).toEqual([
    'the text is not constant, and no example sends it',
  ]);
});

test('a function whose statement names a missing column is found', async () => {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    expect(await checkFunctions(client)).toEqual([]);
    await client.query('alter table sessions rename column key_id to signing_key_id');
    expect(await checkFunctions(client)).toEqual([
      expect.stringMatching(
        /^function begin_session: column "key_id" of relation "sessions" does not exist in: insert/,
      ),
    ]);
  } finally {
    await client.query('alter table sessions rename column signing_key_id to key_id');
    await client.end();
  }
});
