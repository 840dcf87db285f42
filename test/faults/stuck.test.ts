import { expect, test } from '@jest/globals';
import { Sandbox } from '../../db/entities/sandbox.ts';
import type { SandboxView } from '../../ops/client/platform-client.ts';
import { hangMount } from '../support/hanging-mount.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { agentPidOf, pidsOf } from './machine.ts';
import { remains } from './matrix.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** Sandboxes whose parts do not do what they are asked; each is asked three times, for ten seconds. */
let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

const row = (sandboxId: string) => platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const create = () => platform.api.createSandbox(small);
const post = (sandboxId: string, what: string) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, {});

test('an agent that hangs: a pause works, a resume is refused and leaves it paused, until the agent answers again', async () => {
  const { sandbox_id: sandboxId } = await create();
  const agent = agentPidOf(platform.dataDir, sandboxId);
  process.kill(agent, 'SIGSTOP');
  expect((await post(sandboxId, 'pause')).body.data).toMatchObject({ status: 'paused' });
  expect(await post(sandboxId, 'resume')).toMatchObject({ status: 409, body: { code: 'resume_failed' } });
  expect(await platform.api.sandbox(sandboxId)).toMatchObject({ status: 'paused' });
  expect(await row(sandboxId)).toMatchObject({ holdsCompute: true });
  process.kill(agent, 'SIGCONT');
  expect((await post(sandboxId, 'resume')).body.data).toMatchObject({ status: 'running' });
}, 90_000);

test('a freezer that does not freeze: a pause is refused, and the sandbox goes on and can still be ended', async () => {
  const sandbox = await create();
  const { sandbox_id: sandboxId } = sandbox;
  const agent = platform.agent(sandbox);
  const pid = await agent.start('sleep', ['3600']);
  const { asked, letGo } = await hangMount(pidsOf(platform.dataDir, sandboxId).init);
  await agent.start('ls', ['/mnt']);
  await asked;
  expect(await post(sandboxId, 'pause')).toMatchObject({ status: 409, body: { code: 'pause_failed' } });
  expect(await platform.api.sandbox(sandboxId)).toMatchObject({ status: 'running', reason: 'pause_failed' });
  expect(await agent.processes()).toContain(pid);
  agent.close();
  await letGo();
  expect((await post(sandboxId, 'pause')).body.data).toMatchObject({ status: 'paused' });
}, 90_000);

test('nothing is left of it', async () => {
  expect(await remains(platform)).toEqual([]);
}, 60_000);
