import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { ballastFiles } from '../../runtime/disk/disk-space.ts';
import { until } from '../support/until.ts';
import { FaultyPlatform, removeHost } from './faulty-platform.ts';
import { remains } from './matrix.ts';
import { TightDisk } from './tight-disk.ts';
import { small } from './transitions.ts';

/** The whole platform is on a disk of 4 GB. A second host, in the region `wide`, has a separate disk. */
let platform: FaultyPlatform;
const disk = new TightDisk('4G');
const wideDisk = new TightDisk('8G');
const parts = ['api', 'gateway', 'worker', 'host', 'temporal', 'postgres'];

beforeAll(async () => {
  platform = await FaultyPlatform.start({ PLATFORM_REGION: 'tight' }, { dataDir: disk.folder });
}, 240_000);
afterAll(async () => {
  await platform?.stop();
  await removeHost(wideDisk.folder, { keepFolder: true });
  await platform?.removeData({ keepFolder: true });
  await disk.remove();
  await wideDisk.remove();
}, 180_000);

const wanted = { ...small, storage_gb: 8, memory_mb: 256 };
const create = (region = 'tight', force = true) =>
  platform.api.request<SandboxView>('POST', '/v1/sandboxes', { ...wanted, locality: { region, force } });
/** The host reports its free space every 2 s, so a create after a delete can be refused for a moment. */
const created = async () => {
  let reply = await create();
  await until(async () => {
    if (!['locality_constraint_failed', 'no_capacity'].includes(reply.body.code!)) return true;
    reply = await create();
    return false;
  });
  expect(reply.body).toMatchObject({ data: { status: 'running' } });
  return reply.body.data;
};
const resume = ({ sandbox_id }: SandboxView) => platform.api.request('POST', `/v1/sandboxes/${sandbox_id}/resume`, {});
const pids = () => parts.map((name) => [name, platform.pid(name)]);
const readRegion = async ({ sandbox_id }: SandboxView) =>
  (await platform.rows<{ region: string }>('select region from sandboxes where sandbox_id = ?', [sandbox_id]))[0]!
    .region;

async function writeMuch(sandbox: SandboxView, megabytes: number): Promise<void> {
  const agent = platform.agent(sandbox);
  await agent.start('/bin/sh', ['-c', `dd if=/dev/zero of=/root/big bs=1M count=${megabytes}`]);
  agent.close();
}

function writtenMib({ sandbox_id }: SandboxView): number {
  const folder = path.join(disk.folder, 'oci/sandboxes', sandbox_id);
  return Number(execFileSync('du', ['-sxm', folder], { encoding: 'utf8' }).split('\t')[0]);
}

async function works(sandbox: SandboxView): Promise<void> {
  const agent = platform.agent(sandbox);
  await agent.upload('/root/written.txt', 'written');
  expect((await agent.download('/root/written.txt')).toString()).toBe('written');
  agent.close();
}

test('the reserve exists as soon as the host accepts sandboxes', () => {
  const { space, inodes } = ballastFiles(path.join(disk.folder, 'oci'));
  expect([existsSync(space), existsSync(inodes)]).toEqual([true, true]);
});

test('sandboxes that fill the disk are paused before the platform fails; a delete frees space', async () => {
  const writers = [await created(), await created()] as const;
  const calm = await created();
  const before = pids();
  // Fills a part in advance, so that the sandboxes need not write it.
  disk.fill(3000);
  for (const writer of writers) await writeMuch(writer, 2400);
  for (const { sandbox_id } of writers) {
    const { reason } = await platform.api.untilStatus(sandbox_id, 'paused', 60_000);
    expect(reason).toBe('host_disk_pressure');
  }
  const isTold = async ({ sandbox_id }: SandboxView) =>
    (
      await platform.rows(
        "select 1 from notifications where type = 'sandbox_host_disk_pressure' and related_entity_id = ?",
        [sandbox_id],
      )
    ).length === 1;
  await until(async () => (await Promise.all(writers.map(isTold))).every(Boolean));
  // The reserve is a tenth of the disk. At least half of it must be there.
  expect(disk.freeMib()).toBeGreaterThan(200);

  expect(await create()).toMatchObject({ status: 409, body: { code: 'locality_constraint_failed' } });
  expect((await create('tight', false)).body).toMatchObject({
    code: 'no_capacity',
    error: expect.stringContaining('disk space'),
  });
  expect(await resume(writers[0])).toMatchObject({ status: 503, body: { code: 'no_capacity' } });
  expect(await platform.api.sandbox(writers[0].sandbox_id)).toMatchObject({ reason: 'host_disk_pressure' });
  await works(calm);

  expect([pids(), platform.ends]).toEqual([before, []]);
  // How much each wrote before the pause is random, so the deletion of the smaller one may not be enough.
  const [smaller, larger] = [...writers].sort((one, other) => writtenMib(one) - writtenMib(other));
  await platform.api.deleteSandbox(larger!.sandbox_id);
  await until(async () => (await create()).status === 201, 60_000);
  await until(async () => (await resume(smaller!)).body.success, 60_000);
  expect([pids(), platform.ends]).toEqual([before, []]);
  disk.empty();
}, 240_000);

test('a host with a full disk accepts no new sandboxes; its sandboxes continue, and other hosts accept new ones', async () => {
  expect(await remains(platform, [platform.dataDir])).toEqual([]);
  platform.addProcess('wide-host', 'worker/host.ts', { PLATFORM_DATA_DIR: wideDisk.folder, PLATFORM_REGION: 'wide' });
  await platform.up('wide-host');
  await until(
    async () => (await platform.rows('select 1 from hosts where lease_expires_at > now()')).length === 2,
    60_000,
  );
  const before = await created();
  disk.fill(600);
  await until(async () => (await create()).status === 409, 60_000);
  const { body } = await create('tight', false);
  expect(body.data.status).toBe('running');
  expect(await readRegion(body.data)).toBe('wide');
  await works(before);
  disk.empty();
  await until(async () => (await create()).status === 201, 60_000);
  expect(await remains(platform, [platform.dataDir, wideDisk.folder])).toEqual([]);
  await platform.down('wide-host');
}, 240_000);

test('the platform starts on a completely full disk, and sandboxes on it can be deleted', async () => {
  const before = await created();
  await platform.stop();
  disk.fill(0);
  platform = await FaultyPlatform.start(
    { PLATFORM_REGION: 'tight' },
    { dataDir: disk.folder, apiKey: platform.apiKey },
  );
  expect((await create('tight', false)).body.code).toBe('no_capacity');
  await platform.api.deleteSandbox(before.sandbox_id);
  disk.empty();
  await until(async () => (await create()).status === 201, 60_000);
}, 180_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform, [platform.dataDir])).toEqual([]);
}, 180_000);
