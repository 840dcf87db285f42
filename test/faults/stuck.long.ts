import { expect, test } from '@jest/globals';
import { createAccount } from '../../db/accounts/accounts.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import { agentPort } from '../../runtime/sandbox-agent/agent-client.ts';
import { hangMount } from '../support/hanging-mount.ts';
import { hostileAnswers, redirectToReplacement, startReplacement } from '../support/replaced-agent.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { readAgentPid, readSandboxPids } from './machine.ts';
import { remains } from './matrix.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** Sandboxes with parts that do not respond to requests. */
let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

const row = (sandboxId: SandboxId) => platform.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const create = () => platform.api.createSandbox(small);
const post = (sandboxId: SandboxId, what: string, body = {}) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, body);
/** @throws when it takes longer than any limit of the platform allows */
async function timed<Result>(work: Promise<Result>, limitMs: number): Promise<Result> {
  const started = performance.now();
  const result = await work;
  expect(performance.now() - started).toBeLessThan(limitMs);
  return result;
}

test('an agent that hangs: a pause works, a resume is refused and leaves it paused, until the agent answers again', async () => {
  const { sandbox_id: sandboxId } = await create();
  const agent = readAgentPid(platform.dataDir, sandboxId);
  process.kill(agent, 'SIGSTOP');
  expect((await post(sandboxId, 'pause')).body.data).toMatchObject({ status: 'paused' });
  expect(await post(sandboxId, 'resume')).toMatchObject({ status: 409, body: { code: 'agent_not_answering' } });
  expect(await platform.api.sandbox(sandboxId)).toMatchObject({ status: 'paused' });
  expect(await row(sandboxId)).toMatchObject({ holdsCompute: true });
  process.kill(agent, 'SIGCONT');
  expect((await post(sandboxId, 'resume')).body.data).toMatchObject({ status: 'running' });
}, 180_000);

test('a freezer that does not freeze: a pause is refused, and the sandbox continues and can be ended', async () => {
  const sandbox = await create();
  const { sandbox_id: sandboxId } = sandbox;
  const agent = platform.agent(sandbox);
  const pid = await agent.start('sleep', ['3600']);
  const { asked, letGo } = await hangMount(readSandboxPids(platform.dataDir, sandboxId).init);
  await agent.start('ls', ['/mnt']);
  await asked;
  expect(await post(sandboxId, 'pause')).toMatchObject({ status: 409, body: { code: 'pause_failed' } });
  expect(await platform.api.sandbox(sandboxId)).toMatchObject({ status: 'running', reason: 'pause_failed' });
  expect(await agent.processes()).toContain(pid);
  agent.close();
  await letGo();
  expect((await post(sandboxId, 'pause')).body.data).toMatchObject({ status: 'paused' });
}, 180_000);

test('root answers in place of agents: every call ends in time, and another account creates as fast as before', async () => {
  const wanted = { email: 'neighbour@example.com', displayName: 'Neighbour', planName: 'pro', role: 'user' } as const;
  const { apiKey } = await platform.orm.em.fork().transactional((em) => createAccount(em, wanted));
  const neighbour = new PlatformClient(platform.settings.PLATFORM_URL!, apiKey);
  const createMs = async () => {
    const started = performance.now();
    const { sandbox_id: sandboxId } = await neighbour.createSandbox(small);
    const tookMs = performance.now() - started;
    await neighbour.deleteSandbox(sandboxId);
    return tookMs;
  };
  const medianOfThree = async () => [await createMs(), await createMs(), await createMs()].sort((a, b) => a - b)[1]!;
  const usual = await medianOfThree();

  const ids: SandboxId[] = [];
  for (const hostile of hostileAnswers) {
    const sandbox = await create();
    const agent = platform.agent(sandbox);
    const script = ['-c', startReplacement(hostile)];
    expect(await agent.run('sh', script)).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    agent.close();
    redirectToReplacement(readSandboxPids(platform.dataDir, sandbox.sandbox_id).init, agentPort);
    ids.push(sandbox.sandbox_id);
  }
  const all = <Result>(limitMs: number, ask: (id: SandboxId) => Promise<Result>) =>
    Promise.all(ids.map((id) => timed(ask(id), limitMs)));
  for (const reply of await all(60_000, (id) => post(id, 'exec', { command: 'true' }))) {
    expect(reply).toMatchObject({ status: 503, body: { code: 'temporarily_unavailable' } });
  }
  for (const reply of await all(60_000, (id) => post(id, 'pause'))) expect(reply.body.data.status).toBe('paused');

  const resumes = all(60_000, (id) => post(id, 'resume'));
  const meanwhile = await medianOfThree();
  const [refused, terminated, ...deleted] = ids as [SandboxId, SandboxId, ...SandboxId[]];
  await timed(
    Promise.all([
      post(terminated, 'terminate').then(() => platform.api.untilStatus(terminated, 'terminated')),
      ...deleted.map((id) => platform.api.deleteSandbox(id)),
    ]),
    40_000,
  );
  const [refusal, ...overtaken] = await resumes;
  expect(refusal).toMatchObject({ status: 409, body: { code: 'agent_not_answering' } });
  for (const reply of overtaken) expect(reply).toMatchObject({ status: 409, body: { code: 'sandbox_ended' } });
  expect(await platform.api.sandbox(refused)).toMatchObject({ status: 'paused', reason: 'resume_failed' });
  await timed(platform.api.deleteSandbox(refused), 40_000);
  process.stdout.write(`create: usually ${usual.toFixed(0)} ms, meanwhile ${meanwhile.toFixed(0)} ms\n`);
  expect(meanwhile).toBeLessThan(Math.max(15_000, 3 * usual));
}, 240_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform)).toEqual([]);
}, 180_000);
