import { Client } from 'pg';
import { acquireHostLock } from '../../../db/hosts/host-lock.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

let database: TestDatabase;
let admin: Client;

beforeAll(async () => {
  database = await testDatabase();
  admin = new Client({ connectionString: database.url });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await database.drop();
});

/** Requests the lock of a host and records the result. */
function seeker(hostId: string) {
  const seen = { waits: 0, lost: 0, hasLock: false };
  const lock = acquireHostLock({
    databaseUrl: database.url,
    hostId,
    onWait: () => {
      seen.waits += 1;
    },
    onLost: () => {
      seen.lost += 1;
    },
  }).then((taken) => {
    seen.hasLock = true;
    return taken;
  });
  return { seen, lock };
}

test('one process works as a host; the next waits until it leaves, and those of other hosts do not wait', async () => {
  const first = seeker('host-one');
  const firstLock = await first.lock;
  const second = seeker('host-one');
  await until(() => second.seen.waits === 1);
  expect(second.seen.hasLock).toBe(false);
  const other = await seeker('host-two').lock;
  await firstLock.release();
  await (await second.lock).release();
  await other.release();
  expect([first.seen, second.seen]).toEqual([
    { waits: 0, lost: 0, hasLock: true },
    { waits: 1, lost: 0, hasLock: true },
  ]);
});

test('a process whose session ends has lost its lock, and the next gets it', async () => {
  const first = seeker('host-one');
  await first.lock;
  const second = seeker('host-one');
  await until(() => second.seen.waits === 1);
  await admin.query(
    `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and l.granted and d.datname = current_database()`,
  );
  await until(() => first.seen.lost === 1);
  await (await second.lock).release();
  expect(second.seen).toEqual({ waits: 1, lost: 0, hasLock: true });
});
