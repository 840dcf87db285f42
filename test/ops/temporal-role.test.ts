import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { type EmbeddedPostgres, startPostgres } from '../../ops/local-stack/embedded/postgres.ts';
import { freePort } from '../support/free-port.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-temporal-role-'));
fs.chmodSync(dir, 0o711);
let postgres: EmbeddedPostgres;

beforeAll(async () => {
  const port = await freePort();
  postgres = await startPostgres({
    dir: path.join(dir, 'postgres'),
    home: { logDir: dir },
    port,
    password: 'of-the-owner',
    forgetful: true,
  });
}, 120_000);
afterAll(async () => {
  await postgres.stop();
  fs.rmSync(dir, { recursive: true });
});

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const prepare = (password: string) =>
  promisify(execFile)(process.execPath, ['ops/operator/temporal-role.ts'], {
    env: {
      PATH: process.env.PATH,
      DATABASE_OWNER_URL: postgres.url('postgres'),
      TEMPORAL_DATABASE_PASSWORD: password,
    },
  });

test('Temporal gets a role that owns only its databases, and a second run replaces its password', async () => {
  for (const password of ['first', 'second']) {
    await prepare(password);
    for (const name of ['temporal', 'temporal_visibility']) {
      const url = new URL(postgres.url(name));
      Object.assign(url, { username: 'temporal', password });
      await query(url.href, 'create extension if not exists btree_gin');
      await query(url.href, 'create table if not exists made (id int)');
    }
  }
  const former = new URL(postgres.url('temporal'));
  Object.assign(former, { username: 'temporal', password: 'first' });
  await expect(query(former.href, 'select 1')).rejects.toThrow(/password authentication failed/);
  expect(
    await query(
      postgres.url('temporal'),
      `select datname from pg_database join pg_roles r on r.oid = datdba where rolname = 'temporal' order by 1`,
    ),
  ).toEqual([{ datname: 'temporal' }, { datname: 'temporal_visibility' }]);
  expect(
    await query(
      postgres.url('temporal'),
      "select rolsuper, rolcreatedb, rolcreaterole from pg_roles where rolname = 'temporal'",
    ),
  ).toEqual([{ rolsuper: false, rolcreatedb: false, rolcreaterole: false }]);
  await expect(prepare('')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('POSTGRES_TEMPORAL_PASSWORD'),
  });
}, 120_000);
