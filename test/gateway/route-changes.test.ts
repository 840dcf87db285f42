import net from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { pino } from 'pino';
import { PostgresRouteChanges, routeChangeChannel } from '../../gateway/route-changes.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { listening, type UpstreamServer } from './upstream-server.ts';

let database: TestDatabase;
let notifier: pg.Client;
let changes: PostgresRouteChanges;
let announced: string[];
let lives: boolean[];

beforeAll(async () => {
  database = await testDatabase();
  notifier = new pg.Client({ connectionString: database.url });
  await notifier.connect();
});

afterAll(async () => {
  await notifier.end();
  await database.drop();
});

beforeEach(() => {
  announced = [];
  lives = [];
});

afterEach(() => changes.close());

/** @param heartbeat a busy machine misses short ones */
function listen(
  databaseUrl: string,
  heartbeat: Partial<ConstructorParameters<typeof PostgresRouteChanges>[0]> = {},
): void {
  const logger = pino({ level: 'silent' });
  changes = new PostgresRouteChanges({
    databaseUrl,
    logger,
    maxReconnectDelayMs: 100,
    ...heartbeat,
  });
  changes.onChange((sandboxId) => announced.push(sandboxId));
  changes.onLiveChange((live) => lives.push(live));
  changes.start();
}

function announce(sandboxId: string) {
  return notifier.query('select pg_notify($1, $2)', [routeChangeChannel, sandboxId]);
}

test('a changed route is announced, a changed last access is not', async () => {
  listen(database.url);
  await until(() => changes.live);
  await announce('sbx-a');
  await announce('sbx-b');
  await until(() => announced.length === 2);
  const startedAt = performance.now();
  await until(() => performance.now() - startedAt > 250);
  expect(announced).toEqual(['sbx-a', 'sbx-b']);
  expect(lives).toEqual([true]);
});

test('a connection that Postgres ends is lost at once and comes back', async () => {
  listen(database.url);
  await until(() => changes.live);
  await notifier.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sandbox_route_changed'",
  );
  await until(() => lives.length === 3);
  expect(lives).toEqual([true, false, true]);
  await announce('sbx-c');
  await until(() => announced.includes('sbx-c'));
});

test('a silent connection counts as lost, and nothing of it is left', async () => {
  const url = new URL(database.tcpUrl);
  const path = await startStallingProxy(Number(url.port));
  try {
    url.port = String(path.port);
    url.hostname = '127.0.0.1';
    listen(url.href, { heartbeatMs: 100, heartbeatTimeoutMs: 300 });
    await until(() => changes.live);
    path.stall(true);
    await until(() => !changes.live);
    path.stall(false);
    await until(() => changes.live);
    // With such heartbeats it can be lost and restored at any time.
    await until(async () => {
      await announce('sbx-d');
      return announced.includes('sbx-d');
    });
  } finally {
    await changes.close();
    await path.stop();
  }
});

test('without Postgres it is not live, keeps trying, and can be closed', async () => {
  const unused = await listening(net.createServer(), '127.0.0.1', 0);
  await unused.stop();
  listen(`postgres://someone:secret@127.0.0.1:${unused.port}/nowhere`);
  const startedAt = performance.now();
  await until(() => performance.now() - startedAt > 300);
  expect(changes.live).toBe(false);
  await changes.close();
  expect(lives).toEqual([]);
});

/** A proxy to Postgres that can stop forwarding without closing, as networks do. */
async function startStallingProxy(port: number): Promise<UpstreamServer & { stall(isStalled: boolean): void }> {
  let isStalled = false;
  const server = net.createServer((client) => {
    const inner = net.connect(port, '127.0.0.1');
    client.on('data', (bytes) => !isStalled && inner.write(bytes));
    inner.on('data', (bytes) => !isStalled && client.write(bytes));
    client.on('close', () => inner.destroy());
    inner.on('close', () => client.destroy());
    for (const socket of [client, inner]) socket.on('error', () => undefined);
  });
  const upstream = await listening(server, '127.0.0.1', 0);
  return {
    ...upstream,
    stall: (stalled) => {
      isStalled = stalled;
    },
  };
}
