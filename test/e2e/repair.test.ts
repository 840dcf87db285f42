import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PlatformClient, SandboxView } from '../../ops/client/platform-client.ts';
import { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';

/** A sandbox that lost something from outside, or no longer answers, on the whole platform. */
const platform = new RunningPlatform();
let api: PlatformClient;

beforeAll(async () => {
  await platform.start();
  api = platform.client();
}, 180_000);
afterAll(async () => {
  await platform.stop();
  await platform.hostRemains();
  platform.removeData();
}, 60_000);

const small = { cpu_count: 1, memory_mb: 256, storage_gb: 1 };
const onHost = (...words: string[]) => execFileSync(words[0]!, words.slice(1), { encoding: 'utf8' });
/** The host's route to a sandbox: `<address> dev <link> …`. */
const routeTo = async (id: string) => {
  const { sandbox_domain_internal: place } = (await api.sandbox(id)) as unknown as { sandbox_domain_internal: string };
  const [route] = JSON.parse(onHost('ip', '-json', 'route', 'show', place.split(':')[0]!)) as {
    dst: string;
    dev: string;
  }[];
  return route!;
};

test('a link and a route that are taken away are back within ten seconds, with the processes', async () => {
  const sandbox = await api.createSandbox(small);
  const agent = platform.agent(sandbox);
  const pid = await agent.start('sleep', ['600']);
  const { dst, dev } = await routeTo(sandbox.sandbox_id);
  for (const loss of [
    ['ip', 'link', 'delete', 'dev', dev],
    ['ip', 'route', 'delete', dst],
  ]) {
    onHost(...loss);
    const isBack = () => {
      const routes = JSON.parse(onHost('ip', '-json', 'route', 'show', dst)) as { dev: string }[];
      return routes.some((route) => route.dev === dev);
    };
    await until(isBack, 10_000);
    expect(await agent.processes()).toContain(pid);
  }
  agent.close();
  await api.deleteSandbox(sandbox.sandbox_id);
}, 90_000);

test('a sandbox whose agent hangs is restarted on its disk, also after a resume that was refused', async () => {
  const sandbox = await api.createSandbox(small);
  const id = sandbox.sandbox_id;
  const agent = platform.agent(sandbox);
  await agent.upload('/root/note', 'kept');
  const send = (action: string) => api.request<SandboxView>('POST', `/v1/sandboxes/${id}/${action}`, {});
  const hang = () => agent.run('sh', ['-c', 'sync; kill -STOP $PPID']).catch(() => undefined);
  void hang();
  await until(async () => (await send('pause')).body.data?.status === 'paused', 20_000);
  const refused = await send('resume');
  expect(refused).toMatchObject({ status: 409, body: { code: 'agent_not_answering' } });
  expect(await api.sandbox(id)).toMatchObject({ status: 'paused', reason: 'resume_failed' });
  const restarted = await send('restart');
  expect(restarted.body.data).toMatchObject({ status: 'running', reason: 'restarted' });
  const again = platform.agent(await api.sandbox(id));
  expect((await again.download('/root/note')).toString()).toBe('kept');
  again.close();
  agent.close();
  await api.deleteSandbox(id);
}, 120_000);
