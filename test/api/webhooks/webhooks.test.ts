import { Webhook } from 'standardwebhooks';
import { User } from '../../../db/accounts/user.entity.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { recordSandboxEvent } from '../../../db/sandboxes/sandbox-events.ts';
import { WebhookEndpoint } from '../../../db/webhooks/webhook-endpoint.entity.ts';
import { eventTypes } from '../../../domain/event-types.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { signedHeaders } from '../../../integrations/webhooks/signature.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
let sandboxes: Map<Caller, SandboxId>;

beforeAll(async () => {
  api = await startApi({ planName: 'enterprise', env: { PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8' } });
  member = await api.addUser(api.root);
  sandboxes = new Map();
  for (const caller of [api.root, member]) {
    const { body } = await api.send(caller, 'POST', '/v1/sandboxes', {});
    sandboxes.set(caller, body.data.sandbox_id);
  }
});
afterAll(() => api.stop());

const wanted = { url: 'https://example.com/hooks', event_types: ['sandbox.*'] };
const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
const nextSecret = `whsec_${Buffer.alloc(24, 6).toString('base64')}`;

async function make(caller: Caller, fields: Json = {}): Promise<Json> {
  const { status, body } = await api.send(caller, 'POST', '/v1/webhooks', { ...wanted, ...fields });
  expect(status).toBe(201);
  return body.data;
}

async function refusal(caller: Caller, fields: Json): Promise<string> {
  const { status, body } = await api.send(caller, 'POST', '/v1/webhooks', { ...wanted, ...fields });
  return `${status} ${body.code}`;
}

/** Records an event of a caller's sandbox. */
async function happen(caller: Caller, type: 'sandbox.paused' | 'sandbox.failed'): Promise<void> {
  await api.orm.em.fork().transactional(async (tx) => {
    const sandbox = await tx.findOneOrFail(Sandbox, { sandboxId: sandboxes.get(caller)! });
    recordSandboxEvent(tx, sandbox, type, new Date());
  });
}

const listDeliveries = async (endpoint: Json, caller = api.root, query = ''): Promise<Json[]> =>
  (await api.send(caller, 'GET', `/v1/webhooks/${endpoint.endpoint_id}/deliveries${query}`)).body.data.deliveries;

describe('create', () => {
  test('returns every field, and get, list and update return the same', async () => {
    const given = { ...wanted, description: 'builds', timeout_seconds: 5, max_retries: 0, secret };
    const made = await make(member, given);
    expect(made).toEqual({
      endpoint_id: expect.stringMatching(/^whk-/),
      url: given.url,
      event_types: ['sandbox.*'],
      is_active: true,
      disabled_reason: null,
      description: 'builds',
      scope: 'user',
      timeout_seconds: 5,
      max_retries: 0,
      public_key: expect.stringMatching(/^whpk_[A-Za-z0-9+/]{43}=$/),
      has_secret: true,
      total_deliveries: 0,
      successful_deliveries: 0,
      failed_deliveries: 0,
      last_delivery_at: null,
      last_success_at: null,
      last_failure_at: null,
      created_at: expect.any(String),
      updated_at: expect.any(String),
      user_id: member.userId,
    });
    const url = `/v1/webhooks/${made.endpoint_id}`;
    expect((await api.send(member, 'GET', url)).body.data).toEqual(made);
    expect((await api.send(member, 'GET', '/v1/webhooks')).body.data.webhooks[0]).toEqual(made);
    const changed = (await api.send(member, 'PUT', url, { description: 'tests' })).body.data;
    expect(changed).toEqual({ ...made, description: 'tests', updated_at: expect.any(String) });
    expect((await api.send(api.root, 'GET', url)).body.data).toEqual({ ...changed, account_id: member.accountId });
  });

  test('defaults are a timeout of 30 seconds and three retries; zero values of typed clients count as missing', async () => {
    const made = await make(member, {
      timeout_seconds: 0,
      scope: '',
      secret: '',
      max_retries: null,
      description: null,
    });
    expect(made).toMatchObject({
      timeout_seconds: 30,
      max_retries: 3,
      scope: 'user',
      has_secret: false,
      description: '',
    });
  });

  test.each([
    ['ftp://example.com/', 'another scheme'],
    ['example.com/hooks', 'no scheme'],
    ['http://', 'no host'],
    ['https://user:password@example.com/', 'a password'],
    ['https://example.com/#part', 'a fragment'],
    ['http://example.com:25/', 'the port of another protocol'],
    ['http://10.0.0.1/', 'a private address'],
    ['http://169.254.169.254/latest/meta-data', 'a metadata service'],
    ['http://167772161/', 'a private address as one number'],
    ['http://0xa000001/', 'a private address in hexadecimal'],
    ['http://012.0.0.1/', 'a private address in octal'],
    ['http://[::ffff:10.0.0.1]/', 'a private address within IPv6'],
    ['http://[64:ff9b::10.0.0.1]/', 'a private address behind NAT64'],
    ['http://[fe80::1]/', 'a link-local address'],
    ['http://[::1]/', 'a loopback address that is not opened'],
    [`https://example.com/${'a'.repeat(2048)}`, 'too many characters'],
  ])('%s is refused: %s', async (url) => {
    expect(await refusal(member, { url })).toMatch(/^400 (invalid_webhook_url|validation_failed)$/);
  });

  test('an address in an opened range is accepted', async () => {
    expect(await refusal(member, { url: 'http://127.0.0.1:8080/' })).toBe('201 undefined');
  });

  test.each([
    [{ event_types: ['sandbox.exploded'] }, '400 unsupported_event_type'],
    [{ event_types: ['sandbox.*', 'webhook.test'] }, '400 unsupported_event_type'],
    [{ event_types: [] }, '400 unsupported_event_type'],
    [{ event_types: undefined }, '400 validation_failed'],
    [{ url: undefined }, '400 validation_failed'],
    [{ timeout_seconds: 4 }, '400 validation_failed'],
    [{ timeout_seconds: 301 }, '400 validation_failed'],
    [{ max_retries: 11 }, '400 validation_failed'],
    [{ max_retries: -1 }, '400 validation_failed'],
    [{ scope: 'platform' }, '400 validation_failed'],
    [{ secret: 'whsec_dG9vc2hvcnQ=' }, '400 validation_failed'],
    [{ secret: 'not-base64' }, '400 validation_failed'],
    [{ scope: 'account' }, '403 root_required'],
    [{ event_types: ['payment.*'] }, '403 root_required'],
    [{ event_types: ['budget.restricted'], scope: 'user' }, '403 root_required'],
  ] as [Json, string][])('%j is %s', async (fields, answer) => {
    expect(await refusal(member, fields)).toBe(answer);
  });

  test("the account's events need the account's scope, which a root user gets by subscribing to them", async () => {
    expect(await refusal(api.root, { event_types: ['payment.*'], scope: 'user' })).toBe('400 unsupported_event_type');
    const made = await make(api.root, { event_types: ['payment.*', 'payment.*', 'sandbox.failed'] });
    expect(made).toMatchObject({ scope: 'account', user_id: null, event_types: ['payment.*', 'sandbox.failed'] });
  });

  test('a repeated request with its key makes one endpoint, and concurrent requests make no more than the limit', async () => {
    const owner = await api.addUser(api.root);
    const headers = { 'idempotency-key': 'one' };
    const once = await api.send(owner, 'POST', '/v1/webhooks', { ...wanted, secret }, { headers });
    const again = await api.send(owner, 'POST', '/v1/webhooks', { ...wanted, secret }, { headers });
    expect(again.body.data).toEqual(once.body.data);
    const replies: string[] = [];
    await Promise.all(Array.from({ length: 53 }, async () => replies.push(await refusal(owner, {}))));
    expect(replies.filter((each) => each === '201 undefined')).toHaveLength(49);
    expect(new Set(replies)).toEqual(new Set(['201 undefined', '400 webhook_limit_reached']));
  });
});

describe('update', () => {
  test('changes each field, and keeps those that typed clients send empty', async () => {
    const { endpoint_id: id } = await make(api.root);
    const url = `/v1/webhooks/${id}`;
    const change = {
      url: 'http://127.0.0.1:9000/other',
      event_types: ['template.*'],
      is_active: false,
      timeout_seconds: 300,
      max_retries: 10,
      scope: 'account',
      secret,
    };
    const { secret: _, ...shown } = change;
    expect((await api.send(api.root, 'PUT', url, change)).body.data).toMatchObject({ ...shown, has_secret: true });
    const empty = { url: '', event_types: [], scope: '', timeout_seconds: 0, secret: '', description: null };
    expect((await api.send(api.root, 'PUT', url, empty)).body.data).toMatchObject({ ...shown, has_secret: true });
    expect((await api.send(api.root, 'PUT', url, { scope: 'user' })).body.data.user_id).toBe(api.root.userId);
  });

  test('is refused for the same reasons as create, and then changes nothing', async () => {
    const made = await make(member);
    const url = `/v1/webhooks/${made.endpoint_id}`;
    for (const [change, answer] of [
      [{ url: 'http://10.0.0.1/' }, '400 invalid_webhook_url'],
      [{ event_types: ['nothing'] }, '400 unsupported_event_type'],
      [{ event_types: ['payment.failed'] }, '403 root_required'],
      [{ scope: 'account' }, '403 root_required'],
      [{ timeout_seconds: 1 }, '400 validation_failed'],
    ] as const) {
      const { status, body } = await api.send(member, 'PUT', url, { description: 'changed', ...change });
      expect([change, `${status} ${body.code}`]).toEqual([change, answer]);
    }
    expect((await api.send(member, 'GET', url)).body.data).toEqual(made);
  });

  test('an endpoint that is active again begins without failures', async () => {
    const { endpoint_id: endpointId } = await make(member);
    const em = api.orm.em.fork();
    const failing = { isActive: false, disabledReason: 'failing', consecutiveFailures: 9, failingSince: new Date(0) };
    await em.nativeUpdate(WebhookEndpoint, { endpointId }, failing as Partial<WebhookEndpoint>);
    const url = `/v1/webhooks/${endpointId}`;
    expect((await api.send(member, 'GET', url)).body.data).toMatchObject({ disabled_reason: 'failing' });
    const { body } = await api.send(member, 'PUT', url, { is_active: true });
    expect(body.data).toMatchObject({ is_active: true, disabled_reason: null });
    const row = await em.findOneOrFail(WebhookEndpoint, { endpointId });
    expect(row).toMatchObject({ consecutiveFailures: 0, failingSince: null });
  });
});

test('an event makes a delivery for each subscribed and permitted endpoint, in its own transaction', async () => {
  const endpoints: Record<string, Json> = {
    own: await make(member),
    byType: await make(member, { event_types: ['sandbox.paused'] }),
    everything: await make(member, { event_types: ['*'] }),
    ofAccount: await make(api.root, { scope: 'account' }),
    ofRoot: await make(api.root),
    otherType: await make(member, { event_types: ['sandbox.failed', 'template.*'] }),
    inactive: await make(member),
    foreign: await make(await api.addAccount()),
  };
  await api.send(member, 'PUT', `/v1/webhooks/${endpoints.inactive.endpoint_id}`, { is_active: false });
  const em = api.orm.em.fork();
  await em.execute('delete from webhook_deliveries');
  await happen(member, 'sandbox.paused');
  const named = new Map(Object.entries(endpoints).map(([name, { endpoint_id: id }]) => [id, name]));
  const receivers = async () => {
    const rows = (await em.execute('select endpoint_id, event_id from webhook_deliveries')) as Json[];
    return rows.map((row) => named.get(row.endpoint_id) ?? 'none of these').filter((name) => name !== 'none of these');
  };
  expect((await receivers()).sort()).toEqual(['byType', 'everything', 'ofAccount', 'own']);

  await em.nativeUpdate(User, { userId: member.userId }, { status: 'disabled' });
  await em.execute('delete from webhook_deliveries');
  await happen(member, 'sandbox.paused');
  expect(await receivers()).toEqual(['ofAccount']);
  await em.nativeUpdate(User, { userId: member.userId }, { status: 'enabled' });

  await em.execute('delete from webhook_deliveries');
  await em
    .transactional(async (tx) => {
      const sandbox = await tx.findOneOrFail(Sandbox, { sandboxId: sandboxes.get(member)! });
      recordSandboxEvent(tx, sandbox, 'sandbox.paused', new Date());
      await tx.flush();
      expect(await tx.execute('select 1 from webhook_deliveries')).not.toHaveLength(0);
      throw new Error('rolled back');
    })
    .catch((error) => expect(error.message).toBe('rolled back'));
  expect(await receivers()).toEqual([]);
});

test('deliveries are listed newest first, up to the requested number and at most 200', async () => {
  const endpoint = await make(member);
  await api.orm.em.fork().execute(
    `insert into webhook_deliveries (delivery_id, created_at, endpoint_id, account_id, event_id, event_type, event_at, data,
       status, max_attempts, relay_at)
     select 'whd-' || n, now() - n * interval '1 minute', ?, ?, 'evt-' || n, 't', now(), '{}', 'delivered', 4, null
       from generate_series(1, 210) n`,
    [endpoint.endpoint_id, member.accountId],
  );
  const ids = async (query: string) => (await listDeliveries(endpoint, member, query)).map((each) => each.delivery_id);
  expect(await ids('?limit=3')).toEqual(['whd-1', 'whd-2', 'whd-3']);
  expect(await ids('')).toHaveLength(50);
  expect(await ids('?limit=1000')).toHaveLength(200);
  for (const limit of ['-1', 'x']) {
    const reply = await api.send(member, 'GET', `/v1/webhooks/${endpoint.endpoint_id}/deliveries?limit=${limit}`);
    expect(reply.status).toBe(400);
  }
});

test('a test event is delivered only to its endpoint; an ended delivery is sent again with the same event id', async () => {
  const endpoint = await make(member);
  const url = `/v1/webhooks/${endpoint.endpoint_id}`;
  const headers = { 'idempotency-key': 'test' };
  const { status, body } = await api.send(member, 'POST', `${url}/test`, undefined, { headers });
  expect([status, body.data]).toEqual([
    202,
    expect.objectContaining({
      event_type: 'webhook.test',
      status: 'pending',
      attempt_number: 0,
      max_attempts: 4,
      attempts: [],
    }),
  ]);
  await api.send(member, 'POST', `${url}/test`, undefined, { headers });
  expect(await listDeliveries(endpoint, member)).toEqual([body.data]);

  const again = `${url}/deliveries/${body.data.delivery_id}/redeliver`;
  expect((await api.send(member, 'POST', again)).body.code).toBe('delivery_in_progress');
  const attempt = {
    ...{ startedAt: '2026-05-04T14:05:00.000Z', durationMs: 12, httpStatus: 500, error: 'The endpoint answered 500' },
    ...{ reply: 'r'.repeat(4096), retryAfterMs: null },
  };
  await api.orm.em.fork().execute(
    `update webhook_deliveries set status = 'failed', attempt_number = 4, http_status_code = 500, failed_at = now(),
       error_message = 'The endpoint answered 500', attempts = ?::jsonb, relay_at = null where delivery_id = ?`,
    [JSON.stringify([attempt]), body.data.delivery_id],
  );
  const whole = await api.send(member, 'GET', `${url}/deliveries/${body.data.delivery_id}`);
  expect(whole.body.data).toMatchObject({
    ...{ status: 'failed', http_status_code: 500, attempt_number: 4, failed_at: expect.any(String) },
    attempts: [
      {
        ...{ started_at: attempt.startedAt, duration_ms: 12, http_status_code: 500, error: attempt.error },
        reply: attempt.reply,
      },
    ],
  });
  expect((await listDeliveries(endpoint, member))[0].attempts[0].reply).toHaveLength(256);
  const once = { headers: { 'idempotency-key': `again-${body.data.delivery_id}` } };
  const redelivered = await api.send(member, 'POST', again, undefined, once);
  const repeated = await api.send(member, 'POST', again, undefined, once);
  expect([repeated.body, repeated.headers['idempotent-replayed']]).toEqual([redelivered.body, 'true']);
  expect([redelivered.status, redelivered.body.data]).toEqual([
    202,
    expect.objectContaining({ event_id: body.data.event_id, status: 'pending', max_attempts: 8, failed_at: null }),
  ]);
  expect((await api.send(member, 'POST', `${url}/deliveries/whd-none/redeliver`)).status).toBe(404);
  await api.send(member, 'PUT', url, { is_active: false });
  for (const path of [`${url}/test`, again]) {
    expect((await api.send(member, 'POST', path)).body.code).toBe('webhook_not_active');
  }
});

test('signatures verify with the published library and with ed25519, and for 24 hours after a roll also with the old keys', async () => {
  const keys = api.dependencies.webhookKeys;
  const made = await make(member, { secret });
  const row = () => api.orm.em.fork().findOneOrFail(WebhookEndpoint, { endpointId: made.endpoint_id });
  const body = '{"id":"evt-1"}';
  const sign = async (at = new Date()) => signedHeaders(keys, await row(), { id: 'evt-1', body }, at);
  const verifies = (headers: Record<string, string>, with_: string) => {
    try {
      return new Webhook(with_).verify(body, headers) !== undefined;
    } catch (error) {
      expect((error as Error).message).toBe('No matching signature found');
      return false;
    }
  };
  const verifiesBy = async (headers: Record<string, string>, publicKey: string) => {
    const raw = Buffer.from(publicKey.slice('whpk_'.length), 'base64');
    const key = await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify']);
    const content = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`);
    const signatures = headers['webhook-signature']!.split(' ').filter((each) => each.startsWith('v1a,'));
    const results = signatures.map((each) =>
      crypto.subtle.verify('Ed25519', key, Buffer.from(each.slice(4), 'base64'), content),
    );
    return (await Promise.all(results)).includes(true);
  };
  const first = await sign();
  expect([verifies(first, secret), verifies(first, nextSecret)]).toEqual([true, false]);
  expect(await verifiesBy(first, made.public_key)).toBe(true);

  const url = `/v1/webhooks/${made.endpoint_id}/roll-secret`;
  const refused = await api.send(member, 'POST', url);
  expect([refused.status, refused.body.details]).toEqual([400, [{ path: 'secret', reason: expect.any(String) }]]);
  const { body: rolled } = await api.send(member, 'POST', url, { secret: nextSecret });
  expect(rolled.data.public_key).not.toBe(made.public_key);
  const both = await sign();
  expect([verifies(both, secret), verifies(both, nextSecret)]).toEqual([true, true]);
  expect([await verifiesBy(both, made.public_key), await verifiesBy(both, rolled.data.public_key)]).toEqual([
    true,
    true,
  ]);
  const later = await sign(new Date(Date.now() + 25 * 3_600_000));
  const signatures = later['webhook-signature'].split(' ').map((each) => each.split(',')[0]);
  expect(signatures).toEqual(['v1a', 'v1']);
  expect(await verifiesBy(later, made.public_key)).toBe(false);
  expect(await verifiesBy(later, rolled.data.public_key)).toBe(true);
});

test('a secret is in no reply, log or audit event, and in rows only encrypted', async () => {
  const { endpoint_id: id } = await make(member, { secret });
  await api.send(member, 'PUT', `/v1/webhooks/${id}`, { secret: nextSecret });
  await api.send(member, 'POST', `/v1/webhooks/${id}/roll-secret`, { secret });
  const em = api.orm.em.fork();
  const rows = [
    await em.execute('select * from webhook_endpoints'),
    await em.execute('select * from audit_events'),
    await em.execute('select * from idempotency_keys'),
  ];
  const everything = JSON.stringify([rows, api.log]);
  expect(everything).toContain(id);
  for (const each of [secret, nextSecret]) {
    expect(everything).not.toContain(each);
    expect(everything).not.toContain(each.slice('whsec_'.length, -4));
  }
});

test('a deleted endpoint is removed with its deliveries', async () => {
  const { endpoint_id: id } = await make(member);
  const url = `/v1/webhooks/${id}`;
  expect((await api.send(member, 'DELETE', url)).body).toMatchObject({ success: true, message: expect.any(String) });
  for (const path of [url, `${url}/deliveries`]) expect((await api.send(member, 'GET', path)).status).toBe(404);
  expect((await api.send(member, 'DELETE', url)).status).toBe(404);
});

test('the types of events are listed, each with an example', async () => {
  const { body } = await api.send(member, 'GET', '/v1/webhooks/event-types');
  expect(body.data.event_types.map((each: Json) => each.type)).toEqual(eventTypes.map(({ type }) => type));
  for (const each of body.data.event_types) expect(each.example).toHaveProperty('sequence');
});
