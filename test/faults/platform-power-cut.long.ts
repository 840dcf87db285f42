import { rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';
import { AcknowledgedWork, findAll, formatRow, untilRunning } from './acknowledged-work.ts';
import { CutDisk } from './cut-disk.ts';

/**
 * The whole platform, including the data of Postgres and Temporal, on one disk, which is copied at some moments. The
 * platform then starts on each copy, as after power cuts at those moments.
 */
const cuts = Number(process.env.PLATFORM_POWER_CUTS ?? 4);
const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 1, allow_internet_access: false };
let disk: CutDisk;
let platform: RunningPlatform | undefined;

beforeEach(() => {
  disk = new CutDisk();
});

afterEach(async () => {
  await powerOff();
  await disk.remove();
}, 120_000);

function onDisk(): RunningPlatform {
  const settings = { PLATFORM_WARM_POOL_SIZE: '0', PLATFORM_RATE_LIMIT_PER_KEY: '0' };
  platform = new RunningPlatform(settings, disk.folder);
  return platform;
}

/** Ends everything of the platform. What it still writes goes to the disk that is no longer used. */
async function powerOff(): Promise<void> {
  await platform?.stop();
  await platform?.hostRemains();
  platform = undefined;
}

test(`everything that was acknowledged before a power cut is there after it, ${cuts} times`, async () => {
  disk.mountNew('4G', '6G');
  const live = onDisk();
  await live.start(240_000);
  const neighbour = await live.client().createSandbox(wanted);
  const work = new AcknowledgedWork(live, neighbour, { areFilesSynced: true });
  work.begin();
  const made = [];
  for (let number = 0; number < cuts; number += 1) {
    await delay(3000 + Math.random() * 3000);
    await until(() => {
      const { projects, sandboxes, files } = work.soFar();
      return [projects.length, sandboxes.size, files.length].every((count) => count > 1);
    }, 60_000);
    const acknowledged = work.soFar();
    made.push({ acknowledged, file: disk.cut() });
  }
  await work.end();
  await powerOff();
  await disk.unmount();

  for (const [number, { acknowledged, file }] of made.entries()) {
    disk.mountCopy(file);
    const again = onDisk();
    const startMs = await again.start(240_000);
    const api = again.client();
    const tallies = await findAll(again, acknowledged, neighbour);
    console.log([`power cut ${number + 1}, started in ${startMs} ms`, ...tallies.map(formatRow)].join('\n  '));
    expect(tallies.flatMap(({ lost }) => lost)).toEqual([]);
    for (const { kind, acknowledged: count } of tallies) expect([kind, count > 1]).toEqual([kind, true]);

    for (const [sandboxId, { status, asked }] of acknowledged.sandboxes) {
      if (status !== 'terminated' && asked !== 'terminated') await untilRunning(api, sandboxId);
      await api.deleteSandbox(sandboxId, 60_000);
    }
    await api.createSandbox(wanted);
    await powerOff();
    await disk.unmount();
    rmSync(file);
  }
}, 1_200_000);
