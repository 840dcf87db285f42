import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from '@jest/globals';
import proto from '@temporalio/proto';
import { createAccount } from '../../db/accounts/accounts.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { type ApiReply, PlatformClient, type SandboxView } from '../../ops/development/client/platform-client.ts';
import { addDefaultCard } from '../support/added-card.ts';
import { MailServer } from '../support/mail-server.ts';
import { cards, TestProcessor } from '../support/payment-processor.ts';
import { processorSettings } from '../support/processor-settings.ts';
import { anyLayer, hasManifest, pushImage } from '../support/pushed-image.ts';
import { RegistryFront } from '../support/registry-front.ts';
import { S3Server } from '../support/s3-server.ts';
import { registryAddress } from '../support/stack.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { readAgentPid } from './machine.ts';
import { remains, wrongTotals } from './matrix.ts';
import { StoppableRelay } from './stoppable-relay.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

/** A part that is suspended keeps its connections open and answers nothing. */
const hangMs = 120_000;

// The servers outside of the platform, each behind a process that can be stopped.
const stored = await registryAddress();
const source = await RegistryFront.start(stored);
const mails = await MailServer.start();
const processor = await TestProcessor.start();
const s3 = await S3Server.start('data');
const smtp = new URL(mails.url);
const targets = {
  registry: stored,
  source: source.address,
  mail: smtp.host,
  payments: new URL(processor.url).host,
  bucket: new URL(s3.endpoint).host,
};
type OutsidePart = keyof typeof targets;
const relays = Object.fromEntries(
  await Promise.all(Object.entries(targets).map(async ([name, target]) => [name, await StoppableRelay.start(target)])),
) as Record<OutsidePart, StoppableRelay>;
smtp.host = relays.mail.address;
afterAll(async () => {
  await Promise.all(Object.values(relays).map((relay) => relay.close()));
  await Promise.all([source, mails, processor, s3].map((server) => server.stop()));
});

let platform: FaultyPlatform;

withPlatform(
  (started) => {
    platform = started;
  },
  {
    PLATFORM_REGISTRY: relays.registry.address,
    PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
    SMTP_URL: smtp.href,
    ...processorSettings(`http://${relays.payments.address}`),
  },
);

const create = () => platform.api.createSandbox(small);
const post = (sandboxId: SandboxId, what: string, body = {}) =>
  platform.api.request<SandboxView>('POST', `/v1/sandboxes/${sandboxId}/${what}`, body);
const get = (path: string) => platform.api.request('GET', path);

/** A process and everything that it started. */
function withDescendants(pid: number): number[] {
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  return [pid, ...children.flatMap((child) => withDescendants(Number(child)))];
}

/** Suspends processes. @returns continues them */
function suspend(pids: readonly number[]): () => void {
  const signal = (name: NodeJS.Signals) => {
    for (const each of pids) {
      try {
        process.kill(each, name);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  };
  signal('SIGSTOP');
  return () => signal('SIGCONT');
}

/** Sends requests while processes are suspended. @returns status and code of each reply that came meanwhile */
async function answersWhileSuspended(
  pids: readonly number[],
  requests: Record<string, () => Promise<ApiReply<unknown>>>,
): Promise<Record<string, string>> {
  const goOn = suspend(pids);
  let isHanging = true;
  const continued = delay(hangMs).then(() => {
    isHanging = false;
    goOn();
  });
  try {
    const answers = Object.entries(requests).map(async ([name, request]) => {
      const { status, body } = await request();
      return [name, isHanging ? [status, body.code].join(' ').trim() : 'late'] as const;
    });
    return Object.fromEntries(await Promise.all(answers));
  } finally {
    await continued;
  }
}

/** Activities that a worker has begun, except watches, which last as long as their workflow. */
async function runningActivities(): Promise<string[]> {
  const { PENDING_ACTIVITY_STATE_STARTED } = proto.temporal.api.enums.v1.PendingActivityState;
  const running: string[] = [];
  for await (const { workflowId } of platform.temporal.workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    const { raw } = await platform.temporal.workflow.getHandle(workflowId).describe();
    const started = (raw.pendingActivities ?? []).filter(({ state }) => state === PENDING_ACTIVITY_STATE_STARTED);
    running.push(...started.map(({ activityType }) => `${workflowId} ${activityType!.name}`));
  }
  return running.filter((each) => !each.includes(' watchUntil'));
}

describe.each(['temporal', 'postgres'] as const)('%s hangs', (part) => {
  test('every command is answered meanwhile; what is refused does not happen later, and what is accepted does', async () => {
    const paused = await create();
    const ending = await create();
    const lengthened = await create();
    const goOn = suspend(withDescendants(platform.pid(part)));
    const continued = delay(hangMs).then(goOn);
    let isHanging = true;
    void continued.then(() => {
      isHanging = false;
    });
    const commands = {
      create: platform.api.request<SandboxView>('POST', '/v1/sandboxes', { ...small, name: `while-${part}-hangs` }),
      pause: post(paused.sandbox_id, 'pause'),
      timeout: post(lengthened.sandbox_id, 'timeout', { timeout: 1234 }),
      terminate: post(ending.sandbox_id, 'terminate'),
    };
    try {
      expect((await get('/healthz')).status).toBe(200);
      const ready = await get('/readyz');
      expect(ready.status).toBe(503);
      const list = await get('/v1/sandboxes');
      expect(list.status).toBe(part === 'postgres' ? 503 : 200);
      const statuses = Object.fromEntries(
        await Promise.all(Object.entries(commands).map(async ([name, reply]) => [name, (await reply).status] as const)),
      );
      expect(isHanging).toBe(true);
      expect(statuses).toEqual(
        part === 'postgres'
          ? { create: 503, pause: 503, timeout: 503, terminate: 503 }
          : { create: 201, pause: 200, timeout: 503, terminate: 202 },
      );
    } finally {
      await continued;
    }
    await platform.untilReady();
    if (part === 'temporal') {
      const { sandbox_id: made } = (await commands.create).body.data;
      await platform.api.untilStatus(made, 'running');
      await platform.api.untilStatus(ending.sandbox_id, 'terminated');
    }
    // The workflows have received everything that was sent before these commands.
    for (const sandbox of [paused, lengthened]) {
      await until(async () => (await post(sandbox.sandbox_id, 'timeout', { timeout: 900 })).status === 200, 60_000);
      const status = part === 'temporal' && sandbox === paused ? 'paused' : 'running';
      expect(await platform.api.sandbox(sandbox.sandbox_id)).toMatchObject({ status, timeout: 900 });
    }
    expect(await wrongTotals(platform)).toEqual([]);
  }, 600_000);
});

test('while an agent hangs, its sandbox can be ended, and others answer', async () => {
  const hanging = await create();
  const other = await create();
  const goOn = suspend(withDescendants(readAgentPid(platform.dataDir, hanging.sandbox_id)));
  const continued = delay(hangMs).then(goOn);
  try {
    const run = (sandbox: SandboxView) => post(sandbox.sandbox_id, 'exec', { command: 'true', wait: true });
    const waiting = run(hanging);
    expect((await run(other)).status).toBeLessThan(300);
    expect((await get('/readyz')).status).toBe(200);
    expect((await waiting).status).toBeGreaterThanOrEqual(500);
    expect((await post(hanging.sandbox_id, 'terminate')).status).toBe(202);
    await platform.api.untilStatus(hanging.sandbox_id, 'terminated');
  } finally {
    await continued;
  }
}, 600_000);

interface ImportJob {
  job_id: string;
  template_id: string;
  status: string;
  progress_percentage: number;
}

test('while registries, mail server, payment processor, bucket and gateway hang, every command is answered, and what is accepted happens once', async () => {
  const { api } = platform;
  const send = (path: string, body: unknown = {}) => api.request('POST', path, body);
  const { user_id: userId, email } = (await get('/v1/users/me')).body.data as { user_id: string; email: string };
  const { digest } = await pushImage(`http://${stored}`, `source/${userId}`, { layers: [anyLayer(4_000_000)] });
  const image = `${relays.source.address}/source/${userId}`;
  const importImage = (name: string) =>
    api.request<ImportJob>('POST', '/v1/templates/import', { name, external_image_url: image });
  const readJob = async ({ body }: ApiReply<ImportJob>) =>
    (await api.request<ImportJob>('GET', `/v1/import-jobs/${body.data.job_id}`)).body.data;
  const ownerEmail = 'buyer@example.com';
  const owner = { email: ownerEmail, displayName: 'Buyer', planName: 'hobby', role: 'user' } as const;
  const { accountId, apiKey } = await platform.orm.em.fork().transactional((em) => createAccount(em, owner));
  const card = await addDefaultCard({ orm: platform.orm, processor }, accountId, cards.good);
  const { customer } = await processor.get(`/v1/payment_methods/${card}`);
  const buyer = new PlatformClient(platform.settings.PLATFORM_URL!, apiKey);
  const subscription = '/v1/user-management/account/subscription';
  const mount = s3.mount({ endpoint: `http://${relays.bucket.address}` });
  const mounted = await api.createSandbox({ ...small, object_storage: mount });
  const ending = await api.createSandbox({ ...small, object_storage: mount });
  const plain = await create();

  // They have begun when their registries stop.
  source.fault = { stallsAfter: 1_000_000 };
  const begun = await importImage('begun-import');
  await until(async () => (await readJob(begun)).progress_percentage > 0, 60_000);
  const built = await api.request<{ template_id: string }>(
    'POST',
    `/v1/sandboxes/${plain.sandbox_id}/create-template`,
    {
      name: 'begun-build',
    },
  );
  expect(built.status).toBe(200);

  const agent = platform.agent(plain);
  let throughGateway: Promise<{ stdout: string }> | undefined;
  let accepted: ApiReply<ImportJob> | undefined;
  let unmounted: ApiReply<SandboxView> | undefined;
  const answers = await answersWhileSuspended(
    [...Object.values(relays).map(({ pid }) => pid), ...withDescendants(platform.pid('gateway'))],
    {
      async exec() {
        source.fault = {};
        throughGateway = agent.run('echo', ['late']);
        return post(plain.sandbox_id, 'exec', { command: 'true', wait: true });
      },
      'a template of an image': () =>
        send('/v1/templates', {
          ...{ name: 'of-image', template_source: 'custom', custom_image_source: 'imported' },
          registry_image_url: `${relays.registry.address}/${userId}/none:latest`,
        }),
      'a template of a sandbox': () =>
        send(`/v1/sandboxes/${plain.sandbox_id}/create-template`, { name: 'of-sandbox' }),
      'a template of an external image': () =>
        send('/v1/templates', {
          ...{ name: 'external', template_source: 'custom', custom_image_source: 'external' },
          external_image_url: image,
        }),
      async 'an import'() {
        accepted = await importImage('repeated-import');
        return accepted;
      },
      'a lost password': () => send('/v1/auth/forgot-password', { email: ownerEmail }),
      'an invitation': () =>
        send('/v1/user-management/users', { email: 'invited@example.com', username: 'invited', role: 'user' }),
      'a change of the e-mail': () =>
        send('/v1/user-management/account/email-change-request', {
          ...{ current_email: email, new_email: 'changed@example.com' },
        }),
      'a new card': () => send('/v1/payment/methods/setup-intent'),
      'a plan': () => buyer.request('POST', subscription, { plan_name: 'pro' }),
      async 'a sandbox with a bucket'() {
        unmounted = await api.request<SandboxView>('POST', '/v1/sandboxes', { ...small, object_storage: mount });
        return unmounted;
      },
      'a pause with a bucket': () => post(mounted.sandbox_id, 'pause'),
      'an end with a bucket': () => post(ending.sandbox_id, 'terminate'),
    },
  );
  expect(answers).toEqual({
    exec: '200',
    'a template of an image': '503 registry_unavailable',
    'a template of a sandbox': '503 registry_unavailable',
    'a template of an external image': '201',
    'an import': '202',
    'a lost password': '202',
    'an invitation': '201',
    'a change of the e-mail': '200',
    'a new card': '503 payment_processor_unavailable',
    'a plan': '200',
    'a sandbox with a bucket': '201',
    'a pause with a bucket': '200',
    'an end with a bucket': '202',
  });

  expect(unmounted!.body.data).toMatchObject({ status: 'failed', reason: 'object_storage_mount_failed' });
  expect((await throughGateway!).stdout).toBe('late\n');
  agent.close();
  // Its template is made without the platform's registry, but the import is not accepted.
  expect(accepted!.body.data).toMatchObject({ message: expect.stringContaining('could not be started') });
  const again = await api.request<ImportJob>('POST', `/v1/templates/${accepted!.body.data.template_id}/import`);
  for (const each of [begun, again]) await until(async () => (await readJob(each)).status === 'completed', 420_000);
  for (const name of ['begun-import', 'repeated-import']) {
    expect(await hasManifest(`http://${stored}`, `${userId}/${name}`, digest)).toBe(true);
  }
  const template = `/v1/templates/${built.body.data.template_id}`;
  await until(async () => ((await get(template)).body.data as { status: string }).status === 'available', 420_000);
  expect((await api.createSandbox({ ...small, template: 'begun-build' })).status).toBe('running');
  const isPro = async () => JSON.stringify((await buyer.request('GET', subscription)).body.data).includes('"pro"');
  await until(isPro, 420_000);
  expect(await processor.charges(customer)).toHaveLength(1);
  await platform.api.untilStatus(ending.sandbox_id, 'terminated');
  await until(async () => (await post(mounted.sandbox_id, 'resume')).status === 200, 60_000);
  const receivers = [ownerEmail, 'invited@example.com', email, 'changed@example.com'];
  const hasMail = (receiver: string) => mails.mails.some((mail) => mail.receivers.includes(receiver));
  await until(() => receivers.every(hasMail), 420_000);
  await until(async () => (await runningActivities()).length === 0, 120_000);
  // A repeated mail has the same id.
  const ids = mails.mails.map(({ messageId }) => messageId);
  expect([...new Set(ids)]).toEqual(ids);
}, 1_500_000);

test('while the host worker hangs, every command is answered; its running sandboxes are lost, and the paused one resumes when it is back', async () => {
  const [running, paused, ending] = [await create(), await create(), await create()];
  await post(paused.sandbox_id, 'pause');
  let made: ApiReply<SandboxView> | undefined;
  const answers = await answersWhileSuspended([platform.pid('host')], {
    async create() {
      made = await platform.api.request<SandboxView>('POST', '/v1/sandboxes', small);
      return made;
    },
    pause: () => post(running.sandbox_id, 'pause'),
    resume: () => post(paused.sandbox_id, 'resume'),
    terminate: () => post(ending.sandbox_id, 'terminate'),
    readiness: () => get('/readyz'),
  });
  expect(answers).toEqual({
    create: '201',
    pause: expect.stringMatching(/^(409 sandbox_ended|503 host_unavailable)$/),
    resume: '503 host_unavailable',
    terminate: '202',
    readiness: '200',
  });
  expect(made!.body.data.status).toBe('failed');
  expect(await platform.api.sandbox(running.sandbox_id)).toMatchObject({ status: 'failed', reason: 'host_lost' });
  await until(() => platform.ends.includes('host'), 60_000);
  await platform.untilReady();
  await platform.api.untilStatus(ending.sandbox_id, 'terminated');
  await until(async () => (await post(paused.sandbox_id, 'resume')).status === 200, 60_000);
  await until(async () => (await runningActivities()).length === 0, 120_000);
}, 600_000);

test('everything is cleaned up', async () => {
  expect(await remains(platform)).toEqual([]);
}, 180_000);
