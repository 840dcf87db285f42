import { randomUUID } from 'node:crypto';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSandboxRoute } from '../../../db/sandboxes/sandbox-routes.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';
import { type E2bReply, sendE2b } from './e2b-client.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ planName: 'team' });
});
afterAll(() => api.stop());

const create = (body: Json, { version = '', caller = api.root, key }: CreateOptions = {}): Promise<E2bReply> =>
  sendE2b(api, caller, 'POST', `${version}/sandboxes`, { body, headers: key ? { 'idempotency-key': key } : {} });
interface CreateOptions {
  version?: '' | '/v2';
  caller?: Caller;
  key?: string;
}

const row = (sandboxId: SandboxId) => api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });

/** Expects a refusal, and no changes anywhere. */
async function refuses(body: Json, options?: CreateOptions): Promise<[status: number, message: string]> {
  const before = await api.counts();
  const reply = await create(body, options);
  expect(reply.status).toBeGreaterThanOrEqual(400);
  expect(await api.counts()).toEqual(before);
  return [reply.status, reply.body.message];
}

describe.each(['', '/v2'] as const)('POST %s/sandboxes', (version) => {
  test('makes a sandbox with every supported field', async () => {
    const asked = {
      templateID: 'base',
      timeout: 120,
      metadata: { user: 'ada', run: '7' },
      envVars: { GREETING: 'hello' },
      autoPause: true,
      allow_internet_access: false,
      secure: true,
    };
    const { status, body } = await create(asked, { version });
    expect(status).toBe(201);
    expect(body).toEqual({
      sandboxID: expect.stringMatching(/^sbx-/),
      templateID: expect.stringMatching(/^tpl-/),
      alias: 'base',
      clientID: 'sandbox-platform',
      envdVersion: '0.6.4',
      envdAccessToken: `token-of-${body.sandboxID}`,
      trafficAccessToken: `token-of-${body.sandboxID}`,
      domain: `sandbox.localhost:${api.settings.PLATFORM_GATEWAY_PORT}`,
    });
    expect(await row(body.sandboxID)).toMatchObject({
      status: 'running',
      ownerUserId: api.root.userId,
      timeoutSeconds: 120,
      metadata: { user: 'ada', run: '7' },
      envVars: { GREETING: 'hello' },
      autoPause: true,
      allowInternetAccess: false,
      secure: true,
      publicPorts: true,
    });
  });

  test('has the defaults of E2B', async () => {
    const { body } = await create({ templateID: 'base' }, { version });
    const made = await row(body.sandboxID);
    expect(made).toMatchObject({
      autoPause: false,
      allowInternetAccess: true,
      secure: true,
      metadata: {},
      envVars: {},
    });
    expect(made.timeoutSeconds).toBe(version === '' ? 15 : 300);
  });

  test('accepts fields that ask for what happens anyway, and unknown ones', async () => {
    const { status } = await create(
      {
        ...{ templateID: 'base', metadata: null, envVars: null, timeout: null, mcp: null, iam: { tokens: {} } },
        ...{ autoPauseMemory: true, autoResume: { enabled: false }, volumeMounts: [], unknown: { a: 1 } },
        network: { allowPublicTraffic: true, allowOut: [], rules: {}, egressProxy: null },
      },
      { version },
    );
    expect(status).toBe(201);
  });

  test.each([
    ['autoPauseMemory', false],
    ['autoResume', { enabled: true }],
    ['network', { allowPublicTraffic: false }],
    ['network', { allowOut: ['example.com'] }],
    ['network', { denyOut: ['0.0.0.0/0'] }],
    ['network', { maskRequestHost: 'localhost' }],
    ['network', 'none'],
    ['volumeMounts', [{ name: 'data', path: '/data' }]],
    ['iam', { tokens: { aws: { audience: 'a', tokenType: 'jwt' } } }],
    ['mcp', {}],
    ['mcp', { github: {} }],
  ])('refuses %s: %j, whose effect it does not have', async (field, value) => {
    const [status, message] = await refuses({ templateID: 'base', [field]: value }, { version });
    expect([status, message]).toEqual([400, expect.stringMatching(new RegExp(`^${field} (is not supported|must be)`))]);
  });

  test.each([
    ['templateID', { templateID: undefined }],
    ['templateID', { templateID: 7 }],
    ['timeout', { timeout: -1 }],
    ['timeout', { timeout: 1.5 }],
    ['timeout', { timeout: 100_000_000 }],
    ['metadata', { metadata: { a: { b: 1 } } }],
    ['metadata', { metadata: { a: 'x'.repeat(5000) } }],
    ['envVars', { envVars: { 'A=B': '1' } }],
    ['envVars', { envVars: { A: 1 } }],
    ['autoPause', { autoPause: 'yes' }],
  ])('refuses a wrong %s', async (field, wrong) => {
    const [status, message] = await refuses({ templateID: 'base', ...wrong }, { version });
    expect([status, message]).toEqual([400, expect.stringContaining(field)]);
  });
});

test('only the first version makes sandboxes that are not secure, whose agent needs no token', async () => {
  const { body } = await create({ templateID: 'base', secure: false });
  expect(body).not.toHaveProperty('envdAccessToken');
  expect((await row(body.sandboxID)).secure).toBe(false);
  const second = await create({ templateID: 'base', secure: false }, { version: '/v2' });
  expect(second.body.envdAccessToken).toBe(`token-of-${second.body.sandboxID}`);
});

test('the gateway gets to know that undeclared ports are public, and that those of /v1 are not', async () => {
  const { body } = await create({ templateID: 'base' });
  const other = await api.send(api.root, 'POST', '/v1/sandboxes', {});
  const read = async (id: SandboxId) => (await findSandboxRoute(api.orm.em, id))?.publicPorts;
  expect([await read(body.sandboxID), await read(other.body.data.sandbox_id)]).toEqual([true, false]);
});

test('names of built-in templates of E2B are those of the platform', async () => {
  const { templateId } = await api.orm.em.fork().findOneOrFail(Template, { name: 'code-interpreter' });
  for (const templateID of ['code-interpreter-v1', 'code-interpreter', templateId]) {
    const { status, body } = await create({ templateID });
    expect([status, body.templateID, body.alias]).toEqual([201, templateId, 'code-interpreter-v1']);
  }
});

test('a timeout of 0 or 1 is 2 seconds', async () => {
  for (const timeout of [0, 1, 2]) {
    const { body } = await create({ templateID: 'base', timeout });
    expect((await row(body.sandboxID)).timeoutSeconds).toBe(2);
  }
});

test('a template that does not exist, is of another account, or is not ready is refused', async () => {
  const stranger = await api.addAccount();
  const owner = { accountId: stranger.accountId, ownerUserId: stranger.userId };
  const foreign = await api.addTemplate({ ...owner, visibility: 'private' });
  const building = await api.addTemplate({ status: 'building', image: `registry:web@sha256:${'0'.repeat(64)}` });
  expect((await refuses({ templateID: 'nothing' }))[0]).toBe(404);
  expect((await refuses({ templateID: foreign }))[0]).toBe(404);
  expect(await refuses({ templateID: building })).toEqual([400, expect.stringContaining('is building')]);
});

test('the plan, the concurrent sandboxes and the budget limit a create as under /v1', async () => {
  const hobbyist = await api.addAccount('hobby');
  const caller = { caller: hobbyist };
  expect(await refuses({ templateID: 'base', timeout: 86_400 * 20 }, caller)).toEqual([
    400,
    expect.stringContaining('timeout must be at most'),
  ]);
  const { maxConcurrentSandboxes } = api.plans.get('hobby');
  for (let made = 0; made < maxConcurrentSandboxes; made++) {
    expect((await create({ templateID: 'base' }, caller)).status).toBe(201);
  }
  const [status, message] = await refuses({ templateID: 'base' }, caller);
  expect([status, message]).toEqual([429, expect.stringContaining(`allows ${maxConcurrentSandboxes} sandboxes`)]);
  const reply = await create({ templateID: 'base' }, caller);
  expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);

  const saver = await api.addAccount('pro');
  const budget = { budget_amount: 1, limit_type: 'hard' };
  expect((await api.send(saver, 'POST', '/v1/budgets', budget)).status).toBe(201);
  await api.orm.em.fork().execute('update budgets set is_restricted = true where account_id = ?', [saver.accountId]);
  expect((await refuses({ templateID: 'base' }, { caller: saver }))[0]).toBe(403);
});

test('a quota that is used up refuses a create and a connect to a paused sandbox as under /v1', async () => {
  const member = await api.addUser(api.root);
  const caller = { caller: member };
  const { body } = await create({ templateID: 'base' }, caller);
  expect((await sendE2b(api, member, 'POST', `/sandboxes/${body.sandboxID}/pause`)).status).toBe(204);
  const quota = { user_id: member.userId, traffic_gb_seconds: 1 };
  expect((await api.send(api.root, 'POST', '/v1/user-management/quota-allocations', quota)).status).toBe(201);
  await api.orm.em.fork().execute(
    `insert into usage_events (resource_id, account_id, user_id, project_id, usage_type, period_start, period_end, amount, unit_price)
     values (?, ?, ?, ?, 'traffic_gb', date_trunc('minute', now()), date_trunc('minute', now()) + interval '1 minute', 3221225472, 0.05)`,
    [body.sandboxID, member.accountId, member.userId, member.projectId],
  );
  expect(await refuses({ templateID: 'base' }, caller)).toEqual([403, expect.stringContaining('is used up')]);
  const connect = { body: { timeout: 60 } };
  const refused = await sendE2b(api, member, 'POST', `/sandboxes/${body.sandboxID}/connect`, connect);
  expect([refused.status, refused.body.message]).toEqual([403, expect.stringContaining('is used up')]);
});

test('a repeated Idempotency-Key gets the first sandbox again, with its token', async () => {
  for (const secure of [true, false]) {
    const key = randomUUID();
    const first = await create({ templateID: 'base', secure }, { key });
    const between = await api.counts();
    const again = await create({ templateID: 'base', secure }, { key });
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await api.counts()).toEqual(between);
    expect((await create({ templateID: 'base', timeout: 99 }, { key })).status).toBe(409);
    const stored = JSON.stringify(await api.orm.em.fork().execute('select * from idempotency_keys'));
    expect(stored).not.toContain('token-of-');
  }
});

test('a create is in the audit log as one of /v1', async () => {
  const { body } = await create({ templateID: 'base' });
  const [event] = await api.orm.em
    .fork()
    .execute('select action, actor_user_id from audit_events where object_id = ?', [body.sandboxID]);
  expect(event).toEqual({ action: 'createSandbox', actor_user_id: api.root.userId });
});

test('a sandbox that could not be started is an error, and does not stay behind', async () => {
  api.commands.failNext = new Error('no start');
  const { status, body } = await create({ templateID: 'base', metadata: { is: 'left' } });
  expect([status, body.message]).toEqual([503, 'The sandbox could not be started: try again']);
  const made = await api.orm.em.fork().findOneOrFail(Sandbox, { metadata: { is: 'left' } as never });
  expect(made.status).toBe('terminated');
});
