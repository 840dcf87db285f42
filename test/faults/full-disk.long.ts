import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { processStartedAt } from '../../ops/local-stack/embedded/process-record.ts';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { AcknowledgedWork, findAll, formatRow, type Tally } from './acknowledged-work.ts';
import { TightDisk } from './tight-disk.ts';

/**
 * The platform as `npm start` runs it, with its data folder, its cache folder or both on small disks. They run out of
 * blocks or of inodes while it works, and are still full at its next start.
 */
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 8, allow_internet_access: false };
const fullForMs = 15_000;
const startTimeoutMs = 240_000;
const made: { platform?: RunningPlatform; data?: TightDisk; cache?: TightDisk } = {};
const disks = () => [made.data, made.cache].filter((disk) => disk !== undefined);

afterEach(async () => {
  for (const disk of disks()) disk.empty();
  await made.platform?.stop();
  await made.platform?.hostRemains();
  if (!made.data) made.platform?.removeData();
  for (const disk of disks()) await disk.remove();
  for (const name of ['platform', 'data', 'cache'] as const) delete made[name];
}, 120_000);

async function started(small: { data: boolean; cache: boolean }): Promise<RunningPlatform> {
  if (small.data) made.data = new TightDisk('4G', ['-N', '20000']);
  if (small.cache) {
    made.cache = new TightDisk('4G', ['-N', '40000']);
    await copyOfCache(made.cache.folder);
  }
  const settings = {
    PLATFORM_WARM_POOL_SIZE: '0',
    // That image would fill the small disk of the cache.
    PLATFORM_IMAGES_AHEAD: 'none',
    PLATFORM_RATE_LIMIT_PER_KEY: '0',
    ...(made.cache && { PLATFORM_CACHE_DIR: made.cache.folder }),
  };
  made.platform = new RunningPlatform(settings, made.data?.folder);
  await made.platform.start(startTimeoutMs, { throughSetUp: true });
  return made.platform;
}

/** The parts that a start would need minutes to make. Of the images only the base image, because all may not fit. */
async function copyOfCache(folder: string): Promise<void> {
  const from = cacheDir();
  const { rootfs } = await ensureBaseImage({ cacheDir: from });
  const programs = fs.readdirSync(path.join(from, 'toolchain')).filter((name) => name.startsWith('temporal-server-'));
  const parts = [
    ...programs.map((name) => `toolchain/${name}`),
    path.relative(from, path.dirname(rootfs)),
    'seccomp',
    'workflow-bundles',
  ].filter((part) => fs.existsSync(path.join(from, part)));
  for (const part of parts) {
    fs.mkdirSync(path.dirname(path.join(folder, part)), { recursive: true });
    execFileSync('cp', ['-a', path.join(from, part), path.join(folder, part)]);
  }
}

/** The embedded parts and the platform's own processes, by pid and start. */
function listProcesses(platform: RunningPlatform): string[] {
  const recorded: { name: string; pid: number }[] = JSON.parse(
    fs.readFileSync(path.join(platform.dataDir, 'processes.json'), 'utf8'),
  );
  return recorded.map(({ name, pid }) => `${name} ${pid} ${processStartedAt(pid) ? 'runs' : 'ended'}`).sort();
}

/** Records the free space each second until it is stopped, if it changes. */
function watchFreeSpace(): { stop(): Promise<string[]>; note(text: string): void } {
  const startMs = Date.now();
  const rows: string[] = [];
  let last = '';
  const stopping = new AbortController();
  const note = (remark = '') => {
    const free = Object.entries({ data: made.data, cache: made.cache }).flatMap(([name, disk]) =>
      disk ? `${name} ${disk.freeMib()} MiB ${disk.freeInodes} inodes` : [],
    );
    const row = `${free.join(', ')}  ${remark}`;
    if (row === last) return;
    last = row;
    rows.push(`${((Date.now() - startMs) / 1000).toFixed(1).padStart(6)} s  ${row}`);
  };
  const watching = (async () => {
    while (!stopping.signal.aborted) {
      note();
      await delay(1000, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    note: note,
    async stop() {
      stopping.abort();
      await watching;
      return rows;
    },
  };
}

function print(name: string, free: string[], tallies: Tally[], processes: string[]): void {
  console.log([name, ...free, ...tallies.map(formatRow), ...processes].join('\n  '));
}

const places = [
  { data: true, cache: false },
  { data: false, cache: true },
  { data: true, cache: true },
];
const cases = places.flatMap((place) =>
  (['blocks', 'inodes'] as const).map((kind) => ({
    ...place,
    kind,
    name: `${[place.data && 'data', place.cache && 'cache'].filter(Boolean).join(' and ')} folder, no ${kind} left`,
  })),
);

test.each(cases)(
  'filled by another program: $name',
  async ({ data, cache, kind, name }) => {
    const platform = await started({ data, cache });
    const api = platform.client();
    const neighbour = await api.createSandbox(wanted);
    const victim = await api.createSandbox(wanted);
    const before = listProcesses(platform);
    const free = watchFreeSpace();
    const work = new AcknowledgedWork(platform, neighbour);
    work.begin();
    await delay(3000);
    for (const disk of disks()) {
      if (kind === 'blocks') disk.fill(0);
      else disk.fillInodes(0);
    }
    free.note('filled');
    await delay(fullForMs);
    await work.end();
    expect((await api.request('POST', '/v1/sandboxes', wanted)).body).toMatchObject({ code: 'no_capacity' });
    const after = before.map((line) => line.replace(/^(\S+) (\d+) .*/, (_, part, pid) => formatState(part, pid)));

    await platform.stop();
    free.note('stopped');
    const startMs = await platform.start(startTimeoutMs, { throughSetUp: true });
    free.note(`started again in ${startMs} ms`);
    const again = platform.client();
    await again.deleteSandbox(victim.sandbox_id, 60_000);
    free.note('a sandbox is deleted');
    for (const disk of disks()) disk.empty();
    free.note('the other program gave its space back');
    await until(async () => (await again.request('POST', '/v1/sandboxes', wanted)).status === 201, 60_000);
    free.note('a sandbox is created');
    const tallies = await findAll(platform, work.soFar(), neighbour);
    print(name, await free.stop(), tallies, after);
    expect(tallies.flatMap(({ lost }) => lost)).toEqual([]);
    for (const { kind: of, acknowledged } of tallies) expect([of, acknowledged > 1]).toEqual([of, true]);
    expect(after).toEqual(before);
  },
  600_000,
);

const formatState = (part: string, pid: string) => `${part} ${pid} ${processStartedAt(Number(pid)) ? 'runs' : 'ended'}`;

test('filled by two writing sandboxes: no process ends, and their deletion frees space', async () => {
  const platform = await started({ data: true, cache: false });
  const api = platform.client();
  const writers = [await api.createSandbox(wanted), await api.createSandbox(wanted)];
  const neighbour = await api.createSandbox(wanted);
  const before = listProcesses(platform);
  const free = watchFreeSpace();
  const work = new AcknowledgedWork(platform, neighbour);
  work.begin();
  await delay(3000);
  for (const writer of writers) {
    const agent = platform.agent(writer);
    await agent.start('/bin/sh', ['-c', 'dd if=/dev/zero of=/root/big bs=1M count=2400']);
    agent.close();
  }
  free.note('both write');
  for (const { sandbox_id } of writers) {
    expect(await api.untilStatus(sandbox_id, 'paused', 120_000)).toMatchObject({ reason: 'host_disk_pressure' });
  }
  free.note('both are paused');
  await delay(5000);
  await work.end();
  expect(listProcesses(platform)).toEqual(before);
  await platform.stop();
  const startMs = await platform.start(startTimeoutMs, { throughSetUp: true });
  free.note(`started again in ${startMs} ms`);
  const again = platform.client();
  for (const { sandbox_id } of writers) await again.deleteSandbox(sandbox_id, 60_000);
  free.note('both are deleted');
  await until(async () => (await again.request('POST', '/v1/sandboxes', wanted)).status === 201, 60_000);
  free.note('a sandbox is created');
  const tallies = await findAll(platform, work.soFar(), neighbour);
  print('two sandboxes that write', await free.stop(), tallies, before);
  expect(tallies.flatMap(({ lost }) => lost)).toEqual([]);
}, 600_000);
