import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { Host } from '../../../db/hosts/host.entity.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import type { SandboxUsage } from '../../../runtime/driver.ts';
import { MetricsSampler } from '../../../worker/usage/metrics-sampler.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** The sampler's results from counters, on a real database. The test sets the counters and the clock. */
let database: TestDatabase;
let orm: Orm;
let hostId: string;
const sandboxId = newId('sandbox');
const noon = new Date().setUTCHours(12, 0, 0, 0);
let nowMs: number;
let usage: SandboxUsage;
let running: boolean;
let sampler: MetricsSampler;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  const email = `root-${randomBytes(4).toString('hex')}@example.com`;
  const account = (await bootstrap(orm, { email, planName: 'pro', baseImage: 'builtin:base' }))!;
  hostId = newId('host');
  const em = orm.em.fork();
  const capacity = { cpuCapacity: 10, memoryMbCapacity: 10_000, diskGbCapacity: 100 };
  em.create(Host, { hostId, region: 'local', regionName: 'Local', ...capacity, leaseExpiresAt: new Date() });
  await em.flush();
  await em.execute(
    `insert into sandboxes (sandbox_id, account_id, owner_user_id, project_id, name, template_id, template_name,
       template_source, image, cpu_count, memory_mb, storage_gb, timeout_seconds, status, region, host_id)
     values (?, ?, ?, ?, 's', 't', 'base', 'platform_family', 'builtin:base', 2, 512, 1, 300, 'running', 'local', ?)`,
    [sandboxId, account.accountId, account.userId, account.projectId, hostId],
  );
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const newSampler = () =>
  new MetricsSampler({
    orm,
    hostId,
    driver: { usage: async () => (running ? [{ ...usage }] : []) },
    logger: pino({ level: 'silent' }),
    clock: () => nowMs,
  });

beforeEach(async () => {
  await orm.em.fork().execute('truncate sandbox_metrics, sandbox_metrics_minutes, sandbox_metrics_quarters');
  nowMs = noon;
  running = true;
  const bytes = { memoryBytes: 1000, diskBytes: 2000, diskTotalBytes: 9000, receivedBytes: 0, sentBytes: 0 };
  usage = { sandboxId, atMs: 0, sinceMs: 0, cpuSeconds: 0, ...bytes };
  sampler = newSampler();
});

/** Advances the time, and uses so much processor time in it. */
function pass(seconds: number, cpuSeconds: number): void {
  nowMs += seconds * 1000;
  usage = { ...usage, atMs: usage.atMs + seconds * 1000, cpuSeconds: usage.cpuSeconds + cpuSeconds };
  usage.receivedBytes += 10 * seconds;
}
const rows = (table = 'sandbox_metrics') =>
  orm.em
    .fork()
    .execute(
      `select extract(epoch from sampled_at)::float8 * 1000 - ${noon} as at, ${table.endsWith('minutes') ? 'samples, cpu_used_pct_sum / samples' : 'cpu_used_pct'} as cpu, received_bytes::int as received from ${table} order by 1`,
    );

test('each sample stores the use since the previous one, at multiples of five seconds', async () => {
  nowMs += 40;
  await sampler.sample();
  expect(await rows()).toEqual([]);
  pass(5, 5);
  await sampler.sample();
  pass(5.2, 2.6);
  await sampler.sample();
  expect(await rows()).toEqual([
    { at: 5000, cpu: 50, received: 50 },
    { at: 10_000, cpu: 25, received: 52 },
  ]);
});

test('the first sample stores the use since the sandbox began to run', async () => {
  pass(2, 1);
  nowMs += 3000;
  await sampler.sample();
  expect(await rows()).toEqual([{ at: 5000, cpu: 25, received: 20 }]);
});

test('after a pause and a new run no sample covers earlier time', async () => {
  await sampler.sample();
  running = false;
  pass(5, 0);
  await sampler.sample();
  const run = (sinceMs: number) => ({ ...usage, sinceMs, cpuSeconds: 0, receivedBytes: 0, sentBytes: 0 });
  running = true;
  usage = run(6000);
  pass(5, 3);
  await sampler.sample();
  pass(5, 1);
  await sampler.sample();
  usage = run(19_000);
  pass(5, 0.2);
  await sampler.sample();
  expect(await rows()).toEqual([
    // Covers four seconds: it began at the sixth.
    { at: 10_000, cpu: 37.5, received: 50 },
    { at: 15_000, cpu: 10, received: 50 },
    { at: 20_000, cpu: 10, received: 50 },
  ]);
});

test('a timer that fires before the clock takes no sample for the previous five seconds', async () => {
  const samples: number[] = [];
  let asked = 0;
  const usage = async () => {
    samples.push(nowMs - noon);
    return [];
  };
  const clock = () => {
    asked += 1;
    return nowMs;
  };
  const started = new MetricsSampler({
    orm,
    hostId,
    driver: { usage: usage },
    logger: pino({ level: 'silent' }),
    clock,
  });
  nowMs = noon + 4990;
  started.start();
  nowMs = noon + 4999;
  const askedAtStart = asked;
  await until(() => asked > askedAtStart);
  nowMs = noon + 5000;
  await until(() => samples.length > 0);
  await started.stop();
  expect(samples).toEqual([5000]);
});

test('a sample that could not be stored is covered by the next', async () => {
  await sampler.sample();
  pass(5, 10);
  await orm.em.fork().execute('alter table sandbox_metrics rename to gone');
  await expect(sampler.sample()).rejects.toThrow(/sandbox_metrics/);
  await orm.em.fork().execute('alter table gone rename to sandbox_metrics');
  pass(5, 0);
  await sampler.sample();
  expect(await rows()).toEqual([{ at: 10_000, cpu: 50, received: 100 }]);
});

test('a minute is summed up when it is over, also for a sandbox that ended in it, and also after a restart', async () => {
  for (let sample = 0; sample < 6; sample++) {
    await sampler.sample();
    pass(5, 5);
  }
  running = false;
  for (let sample = 0; sample < 7; sample++) {
    await sampler.sample();
    pass(5, 0);
  }
  expect(await rows('sandbox_metrics_minutes')).toEqual([{ at: 0, cpu: 50, received: 250, samples: 5 }]);

  running = true;
  usage = { ...usage, sinceMs: usage.atMs, cpuSeconds: 0, receivedBytes: 0, sentBytes: 0 };
  await sampler.sample();
  pass(5, 10);
  await sampler.sample();
  // The process dies here, and the next one starts in the following minute.
  pass(50, 0);
  sampler = newSampler();
  await sampler.sample();
  expect(await rows('sandbox_metrics_minutes')).toEqual([
    { at: 0, cpu: 50, received: 250, samples: 5 },
    { at: 60_000, cpu: 100, received: 50, samples: 1 },
  ]);
});

test('after its start it samples until it is stopped, also after a failure', async () => {
  let samples = 0;
  const began = performance.now();
  const ownClock = new MetricsSampler({
    orm,
    hostId,
    driver: {
      async usage() {
        samples += 1;
        if (samples === 2) throw new Error('the kernel says no');
        return [];
      },
    },
    logger: pino({ level: 'silent' }),
    // One second of it takes five milliseconds, so that samples are frequent.
    clock: () => noon + (performance.now() - began) * 200,
  });
  ownClock.start();
  await until(() => samples >= 4);
  await ownClock.stop();
  const samplesAtStop = samples;
  await delay(50);
  expect(samples).toBe(samplesAtStop);
});
