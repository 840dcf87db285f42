import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { type EmbeddedPostgres, startPostgres } from '../../ops/local-stack/embedded/postgres.ts';
import { copyCluster } from '../../ops/operator/backup/cluster-copy.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-cluster-copy-'));
fs.chmodSync(dir, 0o711);
const started: EmbeddedPostgres[] = [];

afterAll(async () => {
  for (const postgres of started) await postgres.stop();
  fs.rmSync(dir, { recursive: true });
});

async function start(name: string): Promise<EmbeddedPostgres> {
  const logDir = path.join(dir, `${name}-logs`);
  fs.mkdirSync(logDir);
  const port = await freePort();
  const postgres = await startPostgres({ dir: path.join(dir, name), home: { logDir }, port, password: 'a-password' });
  started.push(postgres);
  return postgres;
}

async function query<Row>(url: string, sql: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test('a copy of a cluster during writes is complete, and has each database as of one instant', async () => {
  const original = await start('original');
  const names = ['platform', 'temporal'];
  for (const name of names) {
    await original.ensureOwnedDatabase(name, 'secret');
    await query(original.url(name), 'create table numbers (n int)');
  }
  // Runs in the server, so that it continues while the files are copied.
  const writers = names.map((name) =>
    query(
      original.url(name),
      'do $$ declare i int := 0; begin loop i := i + 1; insert into numbers values (i); commit; end loop; end $$',
    ).then(
      () => 'to the end',
      ({ code }) => code,
    ),
  );
  const written = async (postgres: EmbeddedPostgres, name: string) => {
    const [row] = await query<{ rows: number; last: number }>(
      postgres.url(name),
      'select count(*)::int as rows, coalesce(max(n), 0) as last from numbers',
    );
    return row!;
  };
  const before = await Promise.all(names.map((name) => written(original, name)));
  const copy = path.join(dir, 'copy');
  const lsn = await copyCluster(original.url('postgres'), path.join(dir, 'original'), copy);
  expect(lsn).toMatch(/^[0-9A-F]+\/[0-9A-F]+$/);
  const after = await Promise.all(
    names.map(async (name, index) => {
      await until(async () => (await written(original, name)).rows > before[index]!.rows);
      return written(original, name);
    }),
  );
  await query(
    original.url('postgres'),
    "select pg_terminate_backend(pid) from pg_stat_activity where query like 'do %'",
  );
  expect(await Promise.all(writers)).toEqual(['57P01', '57P01']);

  const copied = await start('copy');
  for (const [index, name] of names.entries()) {
    const { rows, last } = await written(copied, name);
    expect(rows).toBe(last);
    expect(rows).toBeGreaterThanOrEqual(before[index]!.rows);
    expect(rows).toBeLessThanOrEqual(after[index]!.rows);
    expect(after[index]!.rows).toBeGreaterThan(before[index]!.rows);
  }
  const slots = await query(original.url('postgres'), 'select slot_name from pg_replication_slots');
  expect(slots).toEqual([]);
}, 120_000);
