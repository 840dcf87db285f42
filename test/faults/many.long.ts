import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import type { FaultyPlatform } from './faulty-platform.ts';
import { remains } from './matrix.ts';
import { withPlatform } from './with-platform.ts';

const sandboxes = 200;
const processes = ['api', 'gateway', 'worker', 'host'] as const;

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

interface Footprint {
  residentMb: number;
  descriptors: number;
}

function footprint(name: string): Footprint {
  const pid = platform.pid(name);
  const kib = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
  return { residentMb: Math.round(kib / 1024), descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

const footprints = () => Object.fromEntries(processes.map((name) => [name, footprint(name)]));

/** Creates and ends the sandboxes, ten at a time. */
async function round(): Promise<void> {
  const ids: string[] = [];
  const wanted = Array.from({ length: sandboxes }, (_, index) => index);
  const maker = async () => {
    while (wanted.pop() !== undefined) {
      const made = await platform.api.createSandbox({
        cpu_count: 1,
        memory_mb: 128,
        storage_gb: 1,
        allow_internet_access: false,
      });
      if (made.status !== 'running') throw new Error(`${made.sandbox_id} is ${made.status}: ${made.reason}`);
      ids.push(made.sandbox_id);
    }
  };
  await Promise.all(Array.from({ length: 10 }, maker));
  const { body } = await platform.api.request<{ total: number }>('GET', '/v1/sandboxes?status=running&limit=1');
  process.stdout.write(`${ids.length} made, list says ${JSON.stringify(body.data).slice(0, 80)}\n`);
  expect(new Set(ids).size).toBe(sandboxes);
  expect(await remains(platform)).toEqual([]);
}

test('200 sandboxes start and end three times; memory, descriptors and rows return to where they were', async () => {
  const after: Record<string, Footprint>[] = [];
  for (let number = 1; number <= 3; number++) {
    const startedMs = Date.now();
    await round();
    after.push(footprints());
    process.stdout.write(`round ${number}: ${(Date.now() - startedMs) / 1000} s ${JSON.stringify(after.at(-1))}\n`);
  }
  // The first round fills pools and caches. Growth after it would be a leak.
  for (const name of processes) {
    expect(after[2]![name]!.descriptors).toBeLessThanOrEqual(after[0]![name]!.descriptors + 10);
    expect(after[2]![name]!.residentMb).toBeLessThanOrEqual(after[0]![name]!.residentMb * 1.25 + 20);
  }
}, 900_000);
