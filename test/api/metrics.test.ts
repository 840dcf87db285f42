import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import * as echarts from 'echarts';
import { addUpMinutes, insertSamples, type MeteredUsage } from '../../db/usage/sandbox-metrics.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { Json } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let stranger: Caller;
let id: SandboxId;
const mib = 1024 ** 2;
/** The previous step, so that a whole range of the past always exists. */
let lastStepMs: number;
const secondsAgo = (seconds: number) => new Date(lastStepMs - seconds * 1000);

beforeAll(async () => {
  api = await startApi({ planName: 'pro' });
  stranger = await api.addAccount();
  // A range of the past may begin yesterday.
  await api.orm.em
    .fork()
    .execute("select make_metrics_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date)");
});
afterAll(() => api.stop());

beforeEach(async () => {
  lastStepMs = Math.floor(Date.now() / 5000) * 5000 - 5000;
  const made = await api.send(api.root, 'POST', '/v1/sandboxes', { cpu_count: 2, memory_mb: 512, storage_gb: 1 });
  id = made.body.data.sandbox_id;
});

const usage = (change: Partial<MeteredUsage> = {}): MeteredUsage => ({
  sandboxId: id,
  cpuSeconds: 2.5,
  overSeconds: 5,
  memoryBytes: 128 * mib,
  diskBytes: 50 * mib,
  diskTotalBytes: 990 * mib,
  receivedBytes: 0,
  sentBytes: 0,
  ...change,
});
const sample = (ago: number, change: Partial<MeteredUsage> = {}) =>
  insertSamples(api.orm.em, secondsAgo(ago), [usage(change)]);
const get = (query = '', path = 'metrics', caller = api.root) =>
  api.send(caller, 'GET', `/v1/sandboxes/${id}/${path}${query}`);

describe('GET metrics', () => {
  test('gives the last five minutes, oldest first, each with all its fields', async () => {
    await sample(400);
    await sample(10, { cpuSeconds: 10 });
    await sample(0);
    const { status, body } = await get();
    expect(status).toBe(200);
    expect(body.data).toEqual({
      sandbox_id: id,
      timestamp: expect.stringMatching(/Z$/),
      status: 'running',
      uptime_seconds: expect.any(Number),
      metrics: [
        {
          timestamp: secondsAgo(10).toISOString(),
          cpu_count: 2,
          cpu_used_pct: 100,
          disk_total: 990 * mib,
          disk_used: 50 * mib,
          mem_total: 512 * mib,
          mem_used: 128 * mib,
        },
        expect.objectContaining({ timestamp: secondsAgo(0).toISOString(), cpu_used_pct: 25 }),
      ],
    });
    const object = await api.send(api.root, 'GET', `/v1/sandboxes/${id}`);
    expect(Math.abs(body.data.uptime_seconds - object.body.data.uptime)).toBeLessThanOrEqual(60);
  });

  test('missing data is [] with a message', async () => {
    const { body } = await get();
    expect(body.data).toMatchObject({ metrics: [], error: expect.stringMatching(/no metrics/) });
    const ahead = await get(`?start=${Date.now() + 60_000}&end=${Date.now() + 120_000}`);
    expect(ahead.body.data.metrics).toEqual([]);
  });

  test('accepts RFC 3339, Unix seconds and milliseconds, in either order, and averages over a step', async () => {
    const hour = Math.floor(lastStepMs / 3_600_000) * 3_600_000 - 3_600_000;
    const ago = (ms: number) => (lastStepMs - ms) / 1000;
    for (const [offset, cpuSeconds] of [
      [0, 0],
      [5000, 10],
      [60_000, 4],
    ] as const) {
      await sample(ago(hour + offset), { cpuSeconds });
    }
    // The host does this after each minute.
    await addUpMinutes(api.orm.em, [id], new Date(hour), new Date(hour + 120_000));
    const [from, to] = [hour, hour + 119_000];
    const expected = [
      expect.objectContaining({ timestamp: new Date(hour).toISOString(), cpu_used_pct: 50 }),
      expect.objectContaining({ timestamp: new Date(hour + 60_000).toISOString(), cpu_used_pct: 40 }),
    ];
    for (const [start, end] of [
      [new Date(from).toISOString(), new Date(to).toISOString()],
      [new Date(to).toISOString(), new Date(from).toISOString()],
      [String(from / 1000), String(to / 1000)],
      [String(from), String(to)],
      [new Date(from).toISOString().replace('Z', '+00:00'), new Date(to).toISOString()],
    ]) {
      for (const step of ['60', '60s', '1m']) {
        const { body } = await get(`?start=${start}&end=${end}&step=${step}`);
        expect([start, step, body.data.metrics]).toEqual([start, step, expected]);
      }
    }
  });

  test('a week never has more items than a reply may have', async () => {
    await sample(0);
    await sample(5);
    const { body } = await get(`?start=${Date.now() - 7 * 86_400_000}&step=5`);
    expect(body.data.metrics.length).toBeLessThanOrEqual(2);
    expect(Date.parse(body.data.metrics[0].timestamp) % 60_000).toBe(0);
  });

  test.each([
    ['start', 'start=soon'],
    ['end', 'end=2026-99-99'],
    ['step', 'step=often'],
    ['step', 'step=0'],
    ['step', 'step=30d'],
  ])('400 names %s when its value is invalid: %s', async (field, query) => {
    for (const path of ['metrics', 'metrics/chart']) {
      const { status, body } = await get(`?${query}`, path);
      expect([status, body.code]).toEqual([400, 'validation_failed']);
      expect(body.details).toEqual([expect.objectContaining({ path: field })]);
    }
  });

  test('another account gets 404, a caller without a key 401', async () => {
    for (const path of ['metrics', 'metrics/chart']) {
      expect((await get('', path, stranger)).status).toBe(404);
      expect((await api.send(null, 'GET', `/v1/sandboxes/${id}/${path}`)).status).toBe(401);
    }
  });
});

describe('GET metrics/chart', () => {
  test('a chart library draws the unchanged reply: every line, with gaps during pauses, and its limits', async () => {
    for (let ago = 300; ago >= 0; ago -= 5) {
      // It was paused for a minute.
      if (ago > 120 && ago < 180) continue;
      const wave = Math.sin(ago / 20) + 1;
      await sample(ago, {
        cpuSeconds: 4 * wave,
        memoryBytes: (128 + 100 * wave) * mib,
        diskBytes: (900 - 2 * ago) * mib,
      });
    }
    const { status, body } = await get('?step=5s', 'metrics/chart');
    expect(status).toBe(200);
    const { data } = body;
    expect(data).toMatchObject({ sandbox_id: id, status: 'running' });
    expect(data.time_window).toEqual({
      start: expect.any(String),
      end: expect.any(String),
      step: '5s',
    });
    expect(Date.parse(data.time_window.end) - Date.parse(data.time_window.start)).toBe(300_000);
    const { cpu_usage: cpu, memory_usage: memory, disk_usage: disk } = data.metrics;
    expect([cpu, memory, disk].map((line) => line.filter(([, value]: Json) => value === null).length)).toEqual([
      1, 1, 1,
    ]);
    const newest = lastStepMs;
    expect(cpu.at(-1)).toEqual([newest, 40]);
    expect(memory.at(-1)).toEqual([newest, 228]);
    expect(disk.at(-1)).toEqual([newest, 900]);
    const limits = data.reference_limits;
    expect(limits.cpu_usage.data).toEqual([{ name: '2 cores', yAxis: 100 }]);
    expect(limits.memory_usage.data).toEqual([{ name: '512 MiB', yAxis: 512 }]);
    expect(limits.disk_usage.data).toEqual([{ name: '990 MiB', yAxis: 990 }]);

    const svg = draw(data.chart_config);
    for (const words of ['CPU (%)', 'Memory (MiB)', 'Disk (MiB)', '2 cores', '512 MiB', '990 MiB']) {
      expect(svg).toContain(`>${words}</text>`);
    }
    // Each panel has a line of two pieces: a path has one move for each piece.
    const lines = [...svg.matchAll(/<path d="([^"]+)" fill="none"[^>]*stroke-linejoin/g)].map(([, path]) => path!);
    expect(lines.map((path) => path.match(/M/g)?.length)).toEqual([2, 2, 2]);
  });

  test('without data it is an empty chart of what the sandbox has', async () => {
    const { body } = await get('', 'metrics/chart');
    expect(body.data.metrics).toEqual({ cpu_usage: [], memory_usage: [], disk_usage: [] });
    expect(body.data.reference_limits.disk_usage.data).toEqual([{ name: '1024 MiB', yAxis: 1024 }]);
    expect(draw(body.data.chart_config)).toContain('>1024 MiB</text>');
  });

  test('a week at 15m has its step in the window', async () => {
    const { body } = await get(`?start=${Date.now() - 7 * 86_400_000}&step=15m`, 'metrics/chart');
    expect(body.data.time_window.step).toBe('15m');
    const { body: finest } = await get(`?start=${Date.now() - 7 * 86_400_000}`, 'metrics/chart');
    expect(finest.data.time_window.step).toBe('7m');
  });
});

test("stats are the caller's running sandboxes over the last minute", async () => {
  await api.orm.em.fork().execute('truncate sandbox_metrics');
  await sample(10, { cpuSeconds: 10 });
  await sample(0, { cpuSeconds: 5, memoryBytes: 256 * mib });
  await sample(300);
  const { body } = await api.send(api.root, 'GET', '/v1/sandboxes/stats');
  expect(body.data).toMatchObject({ avg_cpu_usage: 75, avg_memory_usage: 37.5 });
  expect(body.data.total_uptime_hours).toEqual(expect.any(Number));
  const theirs = await api.send(stranger, 'GET', '/v1/sandboxes/stats');
  expect(theirs.body.data).toMatchObject({ avg_cpu_usage: null, avg_memory_usage: null });
});

function draw(option: echarts.EChartsCoreOption): string {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 900, height: 600 });
  try {
    chart.setOption(option);
    return chart.renderToSVGString();
  } finally {
    chart.dispose();
  }
}
