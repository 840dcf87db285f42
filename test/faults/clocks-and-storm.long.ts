import path from 'node:path';
import { expect, test } from '@jest/globals';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxView } from '../../ops/development/client/platform-client.ts';
import { freePort } from '../support/free-port.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { remains, wrongTotals } from './matrix.ts';
import { raiseStorm } from './storm.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** The duration of the storm. */
const seconds = Number(process.env.FAULTS_SECONDS ?? 10);

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

const row = (sandboxId: SandboxId) => platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const create = (wanted = {}) => platform.api.createSandbox({ ...small, ...wanted });
const post = (sandboxId: SandboxId, what: string) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, {});

test('a host and a control worker whose clocks are an hour ahead change nothing', async () => {
  const before = await create({ timeout: 600 });
  const agent = platform.agent(before);
  const pid = await agent.start('sleep', ['3600']);
  const shifted = { NODE_OPTIONS: `--import=${path.join(import.meta.dirname, 'shifted-clock.mjs')}` };
  platform.addProcess('worker', 'worker/control.ts', shifted);
  platform.addProcess('host', 'worker/host.ts', shifted);
  try {
    for (const name of ['worker', 'host']) {
      await platform.kill(name);
      await platform.up(name);
    }
    await platform.untilReady();
    const during = await create({ timeout: 600 });
    const seen = await platform.api.sandbox(during.sandbox_id);
    expect(seen).toMatchObject({ status: 'running' });
    expect(Number(seen.remaining_seconds)).toBeGreaterThan(540);
    expect((await post(during.sandbox_id, 'pause')).body.data).toMatchObject({ status: 'paused' });
    expect((await post(during.sandbox_id, 'resume')).body.data).toMatchObject({ status: 'running' });
    const [first, second] = [await row(before.sandbox_id), await row(during.sandbox_id)];
    expect(first.status).toBe('running');
    for (const each of [first.startedAt, second.startedAt, second.resumedAt]) {
      expect(Math.abs(each!.getTime() - Date.now())).toBeLessThan(60_000);
    }
    expect(await agent.processes()).toContain(pid);
  } finally {
    agent.close();
    platform.addProcess('worker', 'worker/control.ts');
    platform.addProcess('host', 'worker/host.ts');
    for (const name of ['worker', 'host']) {
      await platform.kill(name);
      await platform.up(name);
    }
  }
  expect(await wrongTotals(platform)).toEqual([]);
}, 240_000);

test('fifty clients command one sandbox through two APIs and two control workers, and every reply is correct', async () => {
  const apiPort = await freePort();
  const urls = [platform.settings.PLATFORM_URL!, `http://127.0.0.1:${apiPort}`];
  platform.addProcess('api-2', 'api/server.ts', { PLATFORM_API_PORT: String(apiPort), PLATFORM_URL: urls[1] });
  platform.addProcess('worker-2', 'worker/control.ts');
  await Promise.all(['api-2', 'worker-2'].map((name) => platform.up(name)));
  const { sandbox_id: sandboxId } = await create();
  const storm = await raiseStorm(platform, { sandboxId, urls, apiKey: platform.apiKey, clients: 50, seconds, seed: 4 });
  process.stdout.write(`storm: ${JSON.stringify(storm.replies)}\n`);
  expect(storm.wrong).toEqual([]);
  expect(await wrongTotals(platform)).toEqual([]);
  await Promise.all(['api-2', 'worker-2'].map((name) => platform.down(name)));
}, 240_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform)).toEqual([]);
}, 180_000);
