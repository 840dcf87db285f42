import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { until } from '../support/until.ts';
import { FarHost, isFenced } from './far-host.ts';
import { FaultyPlatform } from './faulty-platform.ts';
import { remains } from './matrix.ts';
import { small } from './transitions.ts';

/** Two hosts are lost: the link of one is cut, the worker of the other is stopped. */
let platform: FaultyPlatform;
let far: FarHost;

beforeAll(async () => {
  platform = await FaultyPlatform.start();
  far = await FarHost.start(platform);
}, 240_000);
afterAll(async () => {
  await platform?.stop();
  await far?.close();
  await platform?.removeData();
}, 180_000);

const row = (sandboxId: SandboxId) => platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const create = (region: string, wanted = {}) =>
  platform.api.createSandbox({ ...small, locality: { region, force: false }, ...wanted });
const post = (sandboxId: SandboxId, what: string) =>
  platform.api.request('POST', `/v1/sandboxes/${sandboxId}/${what}`, {});

/** Watches from the loss until the sandbox has failed. @returns the seconds until it was frozen, and until it failed */
async function watchLoss(sandboxId: SandboxId, fenced: () => boolean) {
  const lostMs = Date.now();
  await until(fenced, 30_000);
  const fencedSeconds = (Date.now() - lostMs) / 1000;
  await platform.api.untilStatus(sandboxId, 'failed');
  const { endedAt } = await row(sandboxId);
  const failedSeconds = (endedAt!.getTime() - lostMs) / 1000;
  process.stdout.write(`host lost: stood still after ${fencedSeconds} s, failed after ${failedSeconds} s\n`);
  return { fencedSeconds, failedSeconds };
}

describe('a host that is cut off', () => {
  let running: SandboxId;
  let paused: SandboxId;
  beforeAll(async () => {
    running = (await create('far', { name: 'cut-off' })).sandbox_id;
    paused = (await create('far', { name: 'cut-off-paused' })).sandbox_id;
    await post(paused, 'pause');
    expect([(await row(running)).region, (await row(paused)).region]).toEqual(['far', 'far']);
  }, 180_000);

  test('is frozen before it is declared lost, and its sandboxes have failed within 30 seconds', async () => {
    far.cut();
    const { fencedSeconds, failedSeconds } = await watchLoss(running, () => far.isFenced);
    expect(fencedSeconds).toBeLessThan(failedSeconds);
    expect(failedSeconds).toBeLessThan(30);
    expect(await platform.api.sandbox(running)).toMatchObject({ reason: 'host_lost', lifecycle_outcome: 'failed' });
  }, 180_000);

  test('gets no new sandboxes: they go elsewhere', async () => {
    const elsewhere = await create('far');
    expect(elsewhere.status).toBe('running');
    expect((await row(elsewhere.sandbox_id)).region).toBe('local');
  }, 180_000);

  test('keeps its paused sandboxes, which show that their host is unreachable', async () => {
    for (const command of ['resume', 'connect']) {
      const refused = await post(paused, command);
      expect(refused).toMatchObject({ status: 503, body: { code: 'host_unavailable' } });
    }
    expect(await platform.api.sandbox(paused)).toMatchObject({ status: 'paused' });
  }, 180_000);

  test('removes failed sandboxes when it is back, and its paused ones resume', async () => {
    far.restore();
    await until(async () => !(await row(running)).holdsDisk, 60_000);
    await until(async () => (await post(paused, 'resume')).status === 200, 60_000);
    expect(await platform.api.sandbox(paused)).toMatchObject({ status: 'running' });
    expect(far.isFenced).toBe(false);
    const again = await create('far');
    expect((await row(again.sandbox_id)).region).toBe('far');
  }, 180_000);
});

describe('a host whose worker is stopped', () => {
  test('is frozen as a whole, is declared lost within 30 seconds, and comes back clean', async () => {
    const { sandbox_id: sandboxId } = await create('local', { name: 'stopped' });
    const stopped = platform.pid('host');
    process.kill(stopped, 'SIGSTOP');
    const { fencedSeconds, failedSeconds } = await watchLoss(sandboxId, () => isFenced(platform.dataDir));
    expect(fencedSeconds).toBeLessThan(failedSeconds);
    expect(failedSeconds).toBeLessThan(30);
    process.kill(stopped, 'SIGCONT');
    await until(() => platform.ends.includes('host') && platform.pid('host') !== stopped, 60_000);
    await until(async () => !(await row(sandboxId)).holdsDisk, 60_000);
    expect((await create('local')).status).toBe('running');
  }, 180_000);
});

test('everything of both hosts is cleaned up', async () => {
  expect(await remains(platform, [platform.dataDir, far.dataDir])).toEqual([]);
  expect(far.veths()).toEqual([]);
}, 180_000);
