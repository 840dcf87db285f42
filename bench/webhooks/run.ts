import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { Agent } from 'undici';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import type { Orm } from '../../db/orm.ts';
import { createOrm } from '../../db/orm.ts';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { heapFlags } from '../../platform/config/heap-limits.ts';
import { temporalAddress, testDatabase, testNamespace } from '../../test/support/stack.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { until } from '../../test/support/until.ts';
import { summarize } from '../statistics.ts';
import { holdAgainst, printTable } from '../table.ts';
import { measureMillionRows } from './million-rows.ts';
import { trivialWorkflowsPerSecond } from './trivial-workflows.ts';

/** Deliveries per second and their delay, compared with alternative designs. `npm run bench -- webhooks` */
const deliveries = 5000;
const workflows = 300;
const eventsPerSecond = 100;
const latencySeconds = 10;
const batch = 256;
const root = path.resolve(import.meta.dirname, '../..');

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const database = await testDatabase();
const temporal = await testNamespace();
const orm = await createOrm(database.url, 8);
const account = (await bootstrap(orm, {
  email: 'root@example.com',
  planName: 'enterprise',
  baseImage: 'builtin:base',
}))!;
const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'webhook-bench-'));
const arrivals = new Map<string, number>();
const receiver = fork(path.join(import.meta.dirname, 'receiver.mjs'));
const [port] = (await once(receiver, 'message')) as [number];
receiver.on('message', (came: [string, number][]) => {
  for (const [id, atMs] of came) arrivals.set(id, atMs);
});
const url = `http://127.0.0.1:${port}/`;
const server = await start('api/server.ts');
const worker = await start('worker/control.ts');
const api = new PlatformClient(server.address, account.apiKey);
try {
  await api.request('POST', '/v1/webhooks', { url, event_types: ['template.uploaded'], scope: 'account' });
  await record(orm, 500);
  await until(() => arrivals.size === 500);
  const rates: number[] = [];
  for (let round = 0; round < 3; round += 1) rates.push(await deliveriesPerSecond());
  const relayed = Math.max(...rates);
  const loop = Math.max(await loopPerSecond(), await loopPerSecond());
  const bare = await trivialWorkflowsPerSecond(await temporalAddress(), workflows);
  const delays = summarize(await measureDelays());
  const { list, one, dropMs } = await measureMillionRows(orm, api);
  const perSecond = (value: number) => `${value.toFixed(0)}/s`;
  printTable('Webhooks', [
    { measure: 'deliveries to a fast receiver, best of 3', value: perSecond(relayed), unit: '' },
    {
      measure: 'workflows with one activity, same server',
      value: perSecond(bare),
      unit: '',
      goal: `deliveries ≥ 10 ×: ${(relayed / bare).toFixed(1)} ×`,
    },
    {
      measure: 'undici loop with a row each, in batches, best of 2',
      value: perSecond(loop),
      unit: '',
      goal: `deliveries ≥ 0.5 ×: ${(relayed / loop).toFixed(2)} ×`,
    },
    {
      measure: `commit to receiver at ${eventsPerSecond} events/s`,
      value: delays,
      unit: 'ms',
      goal: `p50 ${holdAgainst(delays.p50, 50, 'ms')}; p99 ${holdAgainst(delays.p99, 300, 'ms')}`,
    },
    { measure: 'list of deliveries, a million rows', value: list, unit: 'ms', goal: holdAgainst(list.p99, 30, 'ms') },
    { measure: 'one delivery, a million rows', value: one, unit: 'ms', goal: holdAgainst(one.p99, 30, 'ms') },
    { measure: 'old weeks of it dropped', value: dropMs.toFixed(0), unit: 'ms' },
  ]);
} finally {
  for (const { child } of [worker, server]) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  receiver.kill();
  await orm.close();
  await database.drop();
  await stack.stop();
  fs.rmSync(dataDir, { recursive: true });
}

/** A process of the platform. `address`: its listening address, if it has one. */
async function start(script: string): Promise<{ child: ChildProcess; address: string }> {
  const child = fork(path.join(root, script), {
    execArgv: heapFlags(script, {}),
    env: {
      PATH: process.env.PATH,
      PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
      PLATFORM_DATA_DIR: dataDir,
      PLATFORM_CACHE_DIR: dataDir,
      PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
      PLATFORM_API_PORT: '0',
      PLATFORM_RATE_LIMIT_PER_KEY: '0',
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const lines = createInterface({ input: child.stdout! });
  const address = await new Promise<string>((resolve) => {
    lines.on('line', (line) => line.includes('"msg":"ready"') && resolve(JSON.parse(line).address ?? ''));
  });
  return { child, address };
}

/** Records events in one transaction. The trigger makes their deliveries. */
async function record(to: Orm, count: number): Promise<void> {
  await to.em.fork().execute(
    `insert into events (event_id, account_id, object_id, sequence, type, data, created_at)
     select 'evt-' || gen_random_uuid(), ?, ?, n, 'template.uploaded', jsonb_build_object('sequence', n), now()
       from generate_series(1, ?::int) n`,
    [account.accountId, newId('template'), count],
  );
}

async function deliveriesPerSecond(): Promise<number> {
  const wanted = arrivals.size + deliveries;
  await record(orm, deliveries);
  const startedMs = Date.now();
  await until(() => arrivals.size >= wanted, 300_000, 5);
  return (deliveries * 1000) / (Date.now() - startedMs);
}

/** The same requests, each recorded in its row, without leases, checks or signatures. */
async function loopPerSecond(): Promise<number> {
  const em = orm.em.fork();
  const rows = (await em.execute('select delivery_id, created_at, event_id, data from webhook_deliveries limit ?', [
    deliveries,
  ])) as { delivery_id: string; created_at: string; event_id: string; data: object }[];
  const agent = new Agent({ connections: 32 });
  const limit = pLimit(32);
  let done: string[] = [];
  const writes: Promise<unknown>[] = [];
  const write = () => {
    const ids = done;
    done = [];
    writes.push(
      orm.em
        .fork()
        .execute(
          'update webhook_deliveries set error_message = null, delivered_at = now() where delivery_id = any(?)',
          [`{${ids.join(',')}}`],
        ),
    );
  };
  const startedMs = performance.now();
  await Promise.all(
    rows.map((row) =>
      limit(async () => {
        const body = JSON.stringify({ id: row.event_id, data: row.data });
        const headers = { 'webhook-id': row.event_id, 'content-type': 'application/json' };
        const reply = await agent.request({ origin: url.slice(0, -1), path: '/', method: 'POST', headers, body });
        await reply.body.dump();
        done.push(row.delivery_id);
        if (done.length >= batch) write();
      }),
    ),
  );
  write();
  await Promise.all(writes);
  const perSecond = (rows.length * 1000) / (performance.now() - startedMs);
  await agent.close();
  return perSecond;
}

/** Milliseconds from the end of a commit to the receiver. */
async function measureDelays(): Promise<number[]> {
  const committed = new Map<string, number>();
  const commits: Promise<unknown>[] = [];
  for (let number = 0; number < eventsPerSecond * latencySeconds; number += 1) {
    const eventId = `evt-delay-${number}`;
    commits.push(
      orm.em
        .fork()
        .execute(
          `insert into events (event_id, account_id, object_id, sequence, type, data, created_at)
           values (?, ?, ?, 1, 'template.uploaded', '{"sequence": 1}', now())`,
          [eventId, account.accountId, newId('template')],
        )
        .then(() => committed.set(eventId, Date.now())),
    );
    await delay(1000 / eventsPerSecond);
  }
  await Promise.all(commits);
  await until(() => [...committed.keys()].every((id) => arrivals.has(id)));
  return [...committed].map(([id, atMs]) => Math.max(0, arrivals.get(id)! - atMs));
}
