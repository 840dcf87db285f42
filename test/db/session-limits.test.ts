import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from 'pg';
import { accountTransaction } from '../../db/core/account-transaction.ts';
import { isDatabaseOutOfReach } from '../../db/core/out-of-reach.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import type { AccountId } from '../../domain/ids.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let orm: Orm;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 3, { statementMs: 2000, lockMs: 500, idleInTransactionMs: 1000 });
  await orm.em.fork().execute('create table held (id int primary key)');
  await orm.em.fork().execute('insert into held values (1)');
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const lock = 'select * from held where id = 1 for update';
const catchFailure = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test('a process that stalls within a transaction loses its locks, and its pool loses no connection', async () => {
  for (let round = 0; round < 5; round += 1) {
    const locked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const failed = catchFailure(
      orm.em.fork().transactional(async (tx) => {
        await tx.execute(lock);
        locked.resolve();
        await released.promise;
      }),
    );
    // Its transaction may have ended before it got the lock.
    await Promise.race([locked.promise, failed]);
    await until(async () => !(await catchFailure(orm.em.fork().transactional((tx) => tx.execute(lock)))));
    released.resolve();
    expect(await failed).toBeDefined();
  }
}, 180_000);

test('the wait for a lock is limited, and the error says that a later try may succeed', async () => {
  // A client without limits can hold the lock for any time.
  const holder = new Client({ connectionString: database.url });
  await holder.connect();
  try {
    await holder.query('begin');
    await holder.query(lock);
    const waiting = await catchFailure(orm.em.fork().transactional((tx) => tx.execute(lock)));
    expect(isDatabaseOutOfReach(waiting)).toBe(true);
  } finally {
    await holder.end();
  }
});

test('an endless statement is cancelled, and its connection is used again', async () => {
  const endless = await catchFailure(orm.em.fork().execute('select pg_sleep(3600)'));
  expect(isDatabaseOutOfReach(endless)).toBe(true);
  expect(await orm.em.fork().execute('select 1 as one')).toEqual([{ one: 1 }]);
});

test('a statement on a server that hangs fails, and the pool then connects to a server that answers', async () => {
  const relay = await TcpRelay.open(new URL(database.tcpUrl).host, '127.0.0.1');
  const hanging = new URL(database.tcpUrl);
  hanging.host = relay.address;
  const through = await createOrm(hanging.href, 3, { statementMs: 500, lockMs: 500, idleInTransactionMs: 1000 });
  try {
    const begun = Promise.withResolvers<void>();
    const hung = Promise.withResolvers<void>();
    const failed = catchFailure(
      through.em.fork().transactional(async (tx) => {
        await tx.execute(lock);
        begun.resolve();
        await hung.promise;
        await tx.execute('select 1');
      }),
    );
    await begun.promise;
    relay.hang();
    hung.resolve();
    expect(isDatabaseOutOfReach(await failed)).toBe(true);
    relay.goOn();
    expect(await through.em.fork().transactional((tx) => tx.execute('select 1 as one'))).toEqual([{ one: 1 }]);
  } finally {
    relay.close();
    await through.close();
  }
}, 60_000);

test('a full disk is reported as temporary, and the next attempt succeeds when the disk has space', async () => {
  const disk = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-full-'));
  const em = orm.em.fork();
  const [setting] = await em.execute<{ data_directory: string }[]>('show data_directory');
  const { uid } = fs.statSync(setting!.data_directory);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=1m,mode=0700,uid=${uid}`, 'tmpfs', disk]);
  try {
    await em.execute(`create tablespace full_disk location '${disk}'`);
    await em.execute('create table large (text text) tablespace full_disk');
    const add = () => em.execute(`insert into large select repeat('x', 1000) from generate_series(1, 2000)`);
    expect(isDatabaseOutOfReach(await catchFailure(add()))).toBe(true);
    execFileSync('mount', ['-o', 'remount,size=8m', disk]);
    expect(await catchFailure(add())).toBeUndefined();
  } finally {
    await em.execute('drop table if exists large');
    await em.execute('drop tablespace if exists full_disk');
    execFileSync('umount', [disk]);
    fs.rmdirSync(disk);
  }
});

test('an account whose transactions wait for each other leaves connections for other accounts', async () => {
  const pool = await createOrm(database.url, 3);
  try {
    const release = Promise.withResolvers<void>();
    let begun = 0;
    const blocked = Array.from({ length: 20 }, () =>
      accountTransaction(pool.em.fork(), 'acc-busy', async (tx) => {
        await tx.execute('select 1');
        begun += 1;
        await release.promise;
      }),
    );
    const others = await Promise.all(
      [1, 2, 3].map(() => accountTransaction(pool.em.fork(), 'acc-other', (tx) => tx.execute('select 2 as two'))),
    );
    expect(others).toEqual([1, 2, 3].map(() => [{ two: 2 }]));
    expect(begun).toBeLessThanOrEqual(2);
    release.resolve();
    await Promise.all(blocked);
    expect(begun).toBe(20);
  } finally {
    await pool.close();
  }
});

test('more transactions of an account than may wait are refused, and another account is not', async () => {
  // Without the short limits, because the waiting ones stall within their transactions.
  const pool = await createOrm(database.url, 3);
  try {
    const release = Promise.withResolvers<void>();
    const begin = (account: AccountId) =>
      catchFailure(accountTransaction(pool.em.fork(), account, () => release.promise));
    const waiting = Array.from({ length: 100 }, () => begin('acc-many'));
    expect(await begin('acc-many')).toMatchObject({ code: 'too_many_requests' });
    const other = begin('acc-few');
    release.resolve();
    expect(await Promise.all([...waiting, other])).toEqual(Array(101).fill(undefined));
    expect(await begin('acc-many')).toBeUndefined();
  } finally {
    await pool.close();
  }
});
