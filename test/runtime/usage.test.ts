import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxPlace, SandboxSpec, SandboxUsage } from '../../runtime/driver.ts';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { UsageMeter } from '../../runtime/oci/sandbox-meters.ts';
import { LocalHost, shell } from './local-host.ts';

/** The figures that the driver reads of real containers, compared with their work. */
let host: LocalHost;
beforeAll(async () => {
  host = await LocalHost.open();
}, 300_000);
afterAll(() => host.close());

const mib = 1024 ** 2;
async function made(overrides: Partial<SandboxSpec> = {}): Promise<{ spec: SandboxSpec; place: SandboxPlace }> {
  const spec = host.spec(overrides);
  return { spec, place: await host.driver.create(spec) };
}
const readUsage = async ({ spec }: { spec: SandboxSpec }): Promise<SandboxUsage> =>
  (await host.driver.usage()).find((each) => each.sandboxId === spec.sandboxId)!;

test('processor, memory, disk and network are those of the sandbox alone', async () => {
  const [busy, idle] = [await made({ cpuCount: 1, storageGb: 1 }), await made()];
  const before = { busy: await readUsage(busy), idle: await readUsage(idle) };
  const work = `head -c 200M /dev/zero > /root/file; sync /root/file
    head -c 60M /dev/urandom > /dev/shm/held
    timeout 2 sh -c 'while :; do :; done'; true`;
  await shell(busy.place, busy.spec, work);
  const after = { busy: await readUsage(busy), idle: await readUsage(idle) };

  const seconds = (after.busy.atMs - before.busy.atMs) / 1000;
  const cores = (after.busy.cpuSeconds - before.busy.cpuSeconds) / seconds;
  // Two seconds of a whole processor, less the share of other programs on a busy machine.
  expect(after.busy.cpuSeconds - before.busy.cpuSeconds).toBeGreaterThan(0.5);
  // The limit applies to each tenth of a second, so an interval may include a part of one more.
  expect(cores).toBeLessThan(1.1);
  expect(after.busy.diskBytes - before.busy.diskBytes).toBeGreaterThanOrEqual(200 * mib);
  expect(after.busy.diskBytes - before.busy.diskBytes).toBeLessThan(202 * mib);
  const { output } = await shell(busy.place, busy.spec, 'df -B1 --output=size / | tail -1');
  expect(after.busy.diskTotalBytes).toBe(Number(output));
  // The 60 MiB are in use. The 200 are cache that can be reclaimed.
  expect(after.busy.memoryBytes - before.busy.memoryBytes).toBeGreaterThan(58 * mib);
  expect(after.busy.memoryBytes - before.busy.memoryBytes).toBeLessThan(110 * mib);

  // The idle one may still be busy with its start.
  expect(after.idle.cpuSeconds - before.idle.cpuSeconds).toBeLessThan(
    (after.busy.cpuSeconds - before.busy.cpuSeconds) / 2,
  );
  expect(after.idle.diskBytes - before.idle.diskBytes).toBeLessThan(2 * mib);

  const body = new FormData();
  body.set('path', '/root/up');
  body.set('file', new Blob([Buffer.alloc(3 * mib)]));
  await fetch(`http://${busy.place.address}:${busy.place.agentPort}/upload`, {
    method: 'POST',
    headers: { 'x-access-token': busy.spec.accessToken! },
    body,
  });
  const uploaded = await readUsage(busy);
  expect(uploaded.receivedBytes - after.busy.receivedBytes).toBeGreaterThan(3 * mib);
  // Segments that the sender repeats are counted again. Twice the bytes would be those of two interfaces.
  expect(uploaded.receivedBytes - after.busy.receivedBytes).toBeLessThan(5 * mib);
  expect(uploaded.sentBytes - after.busy.sentBytes).toBeLessThan(mib);
}, 300_000);

test('a paused sandbox is left out, is counted again after its resume, and is absent after its end', async () => {
  const sandbox = await made();
  const { sandboxId } = sandbox.spec;
  const first = await readUsage(sandbox);
  await host.driver.pause(sandboxId);
  expect(await readUsage(sandbox)).toBeUndefined();
  await host.driver.resume(sandbox.spec);
  const second = await readUsage(sandbox);
  expect(second.sinceMs).toBeGreaterThan(first.atMs);
  await host.driver.stop(sandboxId);
  expect(await readUsage(sandbox)).toBeUndefined();
  await host.driver.resume(sandbox.spec);
  expect((await readUsage(sandbox)).sinceMs).toBeGreaterThan(second.atMs);
}, 300_000);

test('a restarted host worker continues with running sandboxes and leaves frozen ones out', async () => {
  const [running, frozen] = [await made(), await made()];
  await host.driver.pause(frozen.spec.sandboxId);
  await host.driver.close();
  await host.start();
  expect((await readUsage(running)).memoryBytes).toBeGreaterThan(0);
  expect(await readUsage(frozen)).toBeUndefined();
}, 300_000);

test('control groups of version 2 are read in their own format', async () => {
  const root = mkdtempSync(path.join(os.tmpdir(), 'cgroup-v2-'));
  try {
    const cgroups = new Cgroups('sandboxes', { version: 2, roots: [root], hybridRoot: null });
    const files = cgroups.usageFiles('sbx-one');
    mkdirSync(path.dirname(files.cpu), { recursive: true });
    writeFileSync(files.cpu, 'usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n');
    writeFileSync(files.memory, '104857600\n');
    writeFileSync(files.memoryStat, 'anon 1\nfile 2\nactive_file 9\ninactive_file 4857600\n');
    const meter = new UsageMeter(cgroups);
    meter.begin('sbx-one', { files, diskFolder: root, interface: 'lo' });
    meter.begin('sbx-gone', { files: cgroups.usageFiles('sbx-gone'), diskFolder: root, interface: 'none' });
    writeFileSync(files.cpu, 'usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\n');
    expect(await meter.read()).toEqual([
      expect.objectContaining({ sandboxId: 'sbx-one', cpuSeconds: 2.5, memoryBytes: 100_000_000 }),
    ]);
  } finally {
    rmSync(root, { recursive: true });
  }
});
