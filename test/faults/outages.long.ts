import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { createAccount } from '../../db/accounts/accounts.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { takeInventory } from './inventory.ts';
import { losePower, readSandboxPids } from './machine.ts';
import { remains, wrongTotals } from './matrix.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** The duration of the outages of Postgres and Temporal. `npm run test:faults` sets a minute. */
const seconds = Number(process.env.FAULTS_SECONDS ?? 10);

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

const row = (sandboxId: SandboxId) => platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const create = (wanted = {}) => platform.api.createSandbox({ ...small, ...wanted });
const post = (sandboxId: SandboxId, what: string, body = {}) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, body);

/** Starts a process in a sandbox, which must still exist later. */
async function withProcess(sandbox: SandboxView) {
  const agent = platform.agent(sandbox);
  const pid = await agent.start('sleep', ['3600']);
  return {
    isThere: async () => (await agent.processes()).includes(pid),
    close: () => agent.close(),
  };
}

test('a container that dies on its own soon counts as failed', async () => {
  const { sandbox_id: sandboxId } = await create();
  const diedMs = Date.now();
  process.kill(readSandboxPids(platform.dataDir, sandboxId).init, 'SIGKILL');
  await platform.api.untilStatus(sandboxId, 'failed');
  const { endedAt, reason } = await row(sandboxId);
  expect(reason).toBe('runtime_exited');
  expect(endedAt!.getTime() - diedMs).toBeLessThan(20_000);
}, 180_000);

test('after a power cut sandboxes come back paused with their disks, and resume; the cut is not metered as running', async () => {
  const running = await create();
  const paused = await create();
  await post(paused.sandbox_id, 'pause');
  const agent = platform.agent(running);
  await agent.upload('/root/kept.txt', 'kept');
  await agent.run('sync');
  agent.close();
  // Until the lease shows that the host was alive after the file.
  const { updated_at: before } = (await platform.rows<{ updated_at: Date }>('select updated_at from hosts'))[0]!;
  const renewed = async () =>
    (await platform.rows<{ updated_at: Date }>('select updated_at from hosts'))[0]!.updated_at;
  await until(async () => Number(new Date(await renewed())) > Number(new Date(before)));
  await platform.kill('host');
  const cutMs = Date.now();
  await losePower(platform.dataDir);
  await delay(3000);
  await platform.up('host');
  const back = await platform.api.untilStatus(running.sandbox_id, 'paused');
  expect(back.reason).toBe('host_restarted');
  const after = await row(running.sandbox_id);
  expect(after.runningMs).toBeLessThanOrEqual(cutMs - after.startedAt!.getTime());
  expect(after).toMatchObject({ holdsCompute: false, holdsDisk: true });
  await until(async () => (await row(paused.sandbox_id)).holdsCompute === false);
  for (const each of [running, paused]) {
    await until(async () => (await post(each.sandbox_id, 'resume')).status === 200);
  }
  const again = platform.agent(await platform.api.sandbox(running.sandbox_id));
  expect((await again.download('/root/kept.txt')).toString()).toBe('kept');
  again.close();
  expect(await wrongTotals(platform)).toEqual([]);
}, 240_000);

describe.each(['postgres', 'temporal'] as const)('%s away for a while', (part) => {
  test('commands are refused or done later, and no sandbox loses its processes', async () => {
    const sandbox = await create();
    const inside = await withProcess(sandbox);
    await platform.kill(part);
    const duringMs = Date.now();
    const made = platform.api.request<SandboxView>('POST', '/v1/sandboxes', { ...small, name: `during-${part}` });
    // The host pauses without Temporal.
    expect((await post(sandbox.sandbox_id, 'pause')).status).toBe(part === 'temporal' ? 200 : 503);
    await delay(Math.max(0, duringMs + seconds * 1000 - Date.now()));
    await platform.up(part);
    await platform.untilReady();
    // It is admitted before Temporal is needed. Without Postgres nothing is admitted.
    // A create that waits for Temporal for longer than a minute is 202.
    expect(part === 'temporal' ? [201, 202] : [503]).toContain((await made).status);
    if (part === 'postgres') await until(async () => (await post(sandbox.sandbox_id, 'pause')).status === 200, 60_000);
    await until(async () => (await post(sandbox.sandbox_id, 'resume')).status === 200, 60_000);
    expect(await inside.isThere()).toBe(true);
    inside.close();
    expect(await wrongTotals(platform)).toEqual([]);
  }, 240_000);
});

test('100 creates at once on a plan of 10 make exactly 10 containers', async () => {
  const owner = { email: 'hundred@example.com', displayName: 'Hundred', planName: 'hobby', role: 'user' } as const;
  const { apiKey } = await platform.orm.em.fork().transactional((em) => createAccount(em, owner));
  const api = new PlatformClient(platform.settings.PLATFORM_URL!, apiKey);
  const replies = await Promise.all(
    Array.from({ length: 100 }, () => api.request<SandboxView>('POST', '/v1/sandboxes', small)),
  );
  const made = replies.filter(({ status }) => status === 201).map(({ body }) => body.data);
  expect(made.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 'running'));
  const refused = replies.filter(({ status }) => status !== 201);
  expect(new Set(refused.map(({ status, body }) => `${status} ${body.code}`))).toEqual(
    new Set(['429 concurrent_limit_reached']),
  );
  // A sandbox of an earlier outage may still be starting.
  const others = (
    await platform.rows<{ id: string }>(
      'select sandbox_id as id from sandboxes where owner_user_id <> (select user_id from users where email = ?)',
      [owner.email],
    )
  ).map(({ id }) => id);
  const containers = (await takeInventory(platform)).containers.filter((each) => !others.includes(each));
  expect(containers.sort()).toEqual(made.map(({ sandbox_id }) => sandbox_id).sort());
  await Promise.all(made.map(({ sandbox_id }) => api.request('DELETE', `/v1/sandboxes/${sandbox_id}`)));
}, 240_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform)).toEqual([]);
}, 180_000);
