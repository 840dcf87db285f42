import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { SandboxView } from '../../ops/client/platform-client.ts';
import { until } from '../support/until.ts';
import { FaultyPlatform, removeHost } from './faulty-platform.ts';
import { remains } from './matrix.ts';
import { small } from './transitions.ts';

/** Two hosts; the disk of the one in the region `tight` can be filled. */
let platform: FaultyPlatform;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-tight-host-'));
const disk = path.join(folder, 'disk');
const dataDir = path.join(folder, 'data');
const fill = path.join(dataDir, 'fill');

beforeAll(async () => {
  execFileSync('truncate', ['-s', '4G', disk]);
  execFileSync('mkfs.ext4', ['-q', '-F', disk]);
  fs.mkdirSync(dataDir);
  execFileSync('mount', ['-o', 'loop', disk, dataDir]);
  platform = await FaultyPlatform.start();
  platform.addProcess('tight-host', 'worker/host.ts', { PLATFORM_DATA_DIR: dataDir, PLATFORM_REGION: 'tight' });
  await platform.up('tight-host');
  const hosts = () => platform.rows('select 1 from hosts where lease_expires_at > now()');
  await until(async () => (await hosts()).length === 2, 60_000);
}, 240_000);
afterAll(async () => {
  await platform?.stop();
  await removeHost(dataDir, { keepFolder: true });
  execFileSync('umount', [dataDir]);
  fs.rmSync(folder, { recursive: true });
  await platform?.removeData();
}, 60_000);

const create = (force: boolean) => platform.api.createSandbox({ ...small, locality: { region: 'tight', force } });
const regionOf = async ({ sandbox_id }: SandboxView) =>
  (await platform.rows<{ region: string }>('select region from sandboxes where sandbox_id = ?', [sandbox_id]))[0]!
    .region;

test('a host whose disk is full takes nothing new; what runs there goes on, and others take what may go elsewhere', async () => {
  const before = await create(true);
  execFileSync('fallocate', ['-l', '2500M', fill]);
  expect(await create(true)).toMatchObject({ status: 'failed', reason: 'host_disk_full' });
  const elsewhere = await create(false);
  expect(elsewhere.status).toBe('running');
  expect(await regionOf(elsewhere)).not.toBe('tight');
  const agent = platform.agent(before);
  await agent.upload('/root/written.txt', 'written');
  expect((await agent.download('/root/written.txt')).toString()).toBe('written');
  agent.close();
  fs.rmSync(fill);
  const after = await create(true);
  expect(after.status).toBe('running');
  expect(await regionOf(after)).toBe('tight');
}, 120_000);

test('nothing is left of it', async () => {
  expect(await remains(platform, [platform.dataDir, dataDir])).toEqual([]);
}, 60_000);
