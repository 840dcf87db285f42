import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { bootstrap } from '../../db/bootstrap.ts';
import { newId } from '../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { WebhookEndpoint } from '../../db/webhooks/webhook-endpoint.entity.ts';
import { firstAttemptLimits } from '../../integrations/webhooks/in-flight.ts';
import { type TestDatabase, testDatabase, testNamespace } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { WebhookFlood } from './webhook-flood.ts';

/** A control worker that is killed repeatedly while events go to twenty endpoints, five of which misbehave. */
const events = 500;
const kills = 2;
const root = path.resolve(import.meta.dirname, '../..');
let database: TestDatabase;
let orm: Orm;
let flood: WebhookFlood;
let cacheDir: string;
let worker: ChildProcess;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  const email = 'root@example.com';
  const { accountId } = (await bootstrap(orm, { email, planName: 'pro', baseImage: 'builtin:base' }))!;
  const { address, namespace } = await testNamespace();
  cacheDir = fs.mkdtempSync(path.join(os.tmpdir(), 'webhook-worker-'));
  env = {
    PATH: process.env.PATH,
    PLATFORM_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    PLATFORM_DATA_DIR: cacheDir,
    PLATFORM_CACHE_DIR: path.join(os.tmpdir(), 'sandbox-platform-test-bundles'),
    PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8',
    PLATFORM_LOG_LEVEL: 'info',
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
  };
  flood = await WebhookFlood.start(orm, accountId, async (url) => {
    const em = orm.em.fork();
    em.create(WebhookEndpoint, {
      ...{ endpointId: newId('webhookEndpoint'), accountId, userId: null, url, eventTypes: ['template.*'] },
      ...{ timeoutSeconds: 5, publicKey: 'whpk_' },
    });
    await em.flush();
  });
  worker = await startWorker();
}, 120_000);
afterAll(async () => {
  await end(worker, 'SIGTERM');
  await flood?.stop();
  await orm?.close();
  await database?.drop();
  fs.rmSync(cacheDir, { recursive: true });
}, 60_000);

async function startWorker(): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['worker/control.ts'], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  for await (const chunk of child.stdout!.iterator({ destroyOnReturn: false })) {
    output += chunk;
    if (output.includes('"msg":"ready"')) break;
  }
  child.stdout!.resume();
  return child;
}

async function end(child: ChildProcess | undefined, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

test('each event reaches each healthy endpoint at least once, however often the worker is killed', async () => {
  const sending = flood.send(events, 10);
  const atKills: { held: number; arrived: number }[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    const before = flood.requests();
    // During deliveries, not before the first one.
    await until(() => flood.requests() >= before + 300, 120_000);
    await delay(Math.random() * 50);
    await end(worker, 'SIGKILL');
    atKills.push(await flood.atKill());
    worker = await startWorker();
  }
  await sending;
  await until(() => flood.missing() === 0, 600_000);
  const { size } = flood.committed;
  const { perAccount } = firstAttemptLimits;
  process.stdout.write(
    `webhooks: ${size} events to ${flood.healthy.length} healthy endpoints, 0 lost, ${flood.duplicates()} duplicates; ` +
      `kills ${JSON.stringify(atKills)}, at most ${perAccount} each\n`,
  );
  expect(size).toBeGreaterThanOrEqual(events);
  for (const { arrived } of atKills) expect(arrived).toBeLessThanOrEqual(perAccount);
}, 900_000);
