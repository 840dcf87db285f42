import { until } from '../support/until.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let counter = 0;
beforeAll(async () => {
  api = await startApi({ planName: 'team' });
});
afterAll(() => api.stop());

const fresh = () => `test-${counter++}`;
const post = (url: string, body: unknown, key: string, caller = api.root) =>
  api.send(caller, 'POST', url, body, { headers: { 'idempotency-key': key } });
const age = (key: string, interval: string) =>
  api.orm.em
    .fork()
    .execute(`update idempotency_keys set created_at = created_at - interval '${interval}' where key = ?`, [key]);

test('the same key, caller and body return the first reply again and create nothing', async () => {
  const key = fresh();
  const first = await post('/v1/sandboxes', { name: 'once', metadata: { a: 'b' } }, key);
  expect(first.status).toBe(201);
  const between = await api.counts();
  const again = await post('/v1/sandboxes', { metadata: { a: 'b' }, name: 'once' }, key);
  expect(again.status).toBe(201);
  expect(again.body).toEqual(first.body);
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect(again.body.data.envd_access_token).toBe(`token-of-${first.body.data.sandbox_id}`);
  expect(await api.counts()).toEqual(between);
});

test('a secret is shown once: it is neither repeated nor stored', async () => {
  const key = fresh();
  const first = await post('/v1/api-keys', { name: `key ${key}` }, key);
  expect(first.body.data.api_key).toMatch(/^spk_/);
  const again = await post('/v1/api-keys', { name: `key ${key}` }, key);
  const { api_key: secret, e2b_api_key: spelled, ...rest } = first.body.data;
  expect(again.body.data).toEqual(rest);
  for (const written of [secret, spelled]) expect(again.text).not.toContain(written);
  const stored = JSON.stringify(await api.orm.em.fork().execute('select * from idempotency_keys'));
  expect(stored).toContain(key);
  for (const written of [secret, spelled, 'token-of-']) expect(stored).not.toContain(written);
});

test('another body or another address with the same key is 409', async () => {
  const key = fresh();
  await post('/v1/projects', { name: `p ${key}` }, key);
  for (const [url, body] of [
    ['/v1/projects', { name: `other ${key}` }],
    ['/v1/api-keys', { name: `p ${key}` }],
  ] as const) {
    const reply = await post(url, body, key);
    expect([reply.status, reply.body.code]).toEqual([409, 'idempotency_key_reused']);
  }
});

test('the key of one caller has no effect for another', async () => {
  const key = fresh();
  const other = await api.addUser(api.root);
  const mine = await post('/v1/projects', { name: `p ${key}` }, key);
  const theirs = await post('/v1/projects', { name: `p ${key}` }, key, other);
  expect(theirs.status).toBe(201);
  expect(theirs.body.data.project_id).not.toBe(mine.body.data.project_id);
});

test('one of many concurrent requests runs, and the others are refused meanwhile', async () => {
  const key = fresh();
  const hold = Promise.withResolvers<void>();
  api.commands.hold = hold.promise;
  const first = post('/v1/sandboxes', { name: key }, key);
  const rows = () => api.orm.em.fork().execute('select 1 from sandboxes where name = ?', [key]);
  await until(async () => ((await rows()) as unknown[]).length > 0);
  const others = await Promise.all(Array.from({ length: 5 }, () => post('/v1/sandboxes', { name: key }, key)));
  expect(new Set(others.map((reply) => `${reply.status} ${reply.body.code}`))).toEqual(
    new Set(['409 idempotency_key_in_use']),
  );
  hold.resolve();
  api.commands.hold = null;
  expect((await first).status).toBe(201);
  expect((await post('/v1/sandboxes', { name: key }, key)).body).toEqual((await first).body);
});

test('a long request keeps its key', async () => {
  const key = fresh();
  const hold = Promise.withResolvers<void>();
  api.commands.hold = hold.promise;
  const first = post('/v1/sandboxes', { name: key }, key);
  const claimedAt = async () => {
    const rows = await api.orm.em.fork().execute('select created_at from idempotency_keys where key = ?', [key]);
    return rows.length === 1 ? Date.parse((rows as { created_at: string }[])[0]!.created_at) : null;
  };
  await until(async () => (await claimedAt()) !== null);
  const begun = (await claimedAt())!;
  await until(async () => (await claimedAt())! > begun);
  expect((await post('/v1/sandboxes', { name: key }, key)).body.code).toBe('idempotency_key_in_use');
  hold.resolve();
  api.commands.hold = null;
  const { body } = await first;
  expect((await post('/v1/sandboxes', { name: key }, key)).body).toEqual(body);
});

test('the key of a refused request can be used again, also with a changed body', async () => {
  const key = fresh();
  expect((await post('/v1/sandboxes', { cpu_count: -1 }, key)).status).toBe(400);
  expect((await post('/v1/sandboxes', { cpu_count: 64 }, key)).body.code).toBe('plan_limit_exceeded');
  expect((await post('/v1/sandboxes', { cpu_count: 1 }, key)).status).toBe(201);
});

test.each([
  ['a project', '/v1/projects', { name: 'taken-over' }, 'project_id'],
  ['an API key', '/v1/api-keys', { name: 'taken-over' }, 'key_id'],
  ['a port', '/v1/sandboxes/:sandbox_id/ports', { name: 'web', port: 8080 }, 'port'],
])('%s of a request that died is found when it is repeated', async (_what, path, body, field) => {
  const sandbox = await post('/v1/sandboxes', {}, fresh());
  const url = path.replace(':sandbox_id', sandbox.body.data.sandbox_id);
  const key = fresh();
  const first = await post(url, body, key);
  const em = api.orm.em.fork();
  await em.execute('update idempotency_keys set reply_status = null, reply_body = null where key = ?', [key]);
  await age(key, '16 seconds');
  const before = await api.counts();
  const again = await post(url, body, key);
  expect([again.status, again.body.data[field]]).toEqual([first.status, first.body.data[field]]);
  expect(again.body.data.api_key).toBeUndefined();
  expect(await api.counts()).toEqual(before);
});

test('a request that is taken over while it still runs makes nothing twice', async () => {
  const key = fresh();
  const held = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const locked = api.orm.em.fork().transactional(async (em) => {
    await em.execute('select from users where user_id = ? for update', [api.root.userId]);
    held.resolve();
    await released.promise;
  });
  await held.promise;
  const slow = post('/v1/projects', { name: 'slow' }, key);
  await until(async () => {
    const waiting = await api.orm.em
      .fork()
      .execute("select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'");
    return waiting.length > 0;
  });
  await age(key, '16 seconds');
  const again = post('/v1/projects', { name: 'slow' }, key);
  await until(async () => {
    const [row] = await api.orm.em
      .fork()
      .execute("select created_at > now() - interval '10 seconds' as taken from idempotency_keys where key = ?", [key]);
    return (row as { taken: boolean }).taken;
  });
  released.resolve();
  await locked;
  const replies = await Promise.all([slow, again]);
  expect(replies.map(({ status }) => status)).toEqual([201, 201]);
  expect(replies[0].body.data.project_id).toBe(replies[1].body.data.project_id);
});

test('a request that died is taken over after 15 seconds, and creates nothing twice', async () => {
  const key = fresh();
  const first = await post('/v1/sandboxes', { name: key }, key);
  // The state after a process died between making the sandbox and storing the reply.
  await api.orm.em
    .fork()
    .execute('update idempotency_keys set reply_status = null, reply_body = null where key = ?', [key]);
  expect((await post('/v1/sandboxes', { name: key }, key)).body.code).toBe('idempotency_key_in_use');
  await age(key, '16 seconds');
  const before = await api.counts();
  const again = await post('/v1/sandboxes', { name: key }, key);
  expect(again.status).toBe(201);
  expect(again.body.data.sandbox_id).toBe(first.body.data.sandbox_id);
  expect(await api.counts()).toEqual(before);
});

test('a request that died before it made anything runs when it is repeated', async () => {
  const key = fresh();
  const before = await api.counts();
  const { body } = await post('/v1/sandboxes', { name: key }, key);
  const em = api.orm.em.fork();
  await em.execute('delete from events where object_id = ?', [body.data.sandbox_id]);
  await em.execute('delete from sandboxes where sandbox_id = ?', [body.data.sandbox_id]);
  await em.execute('update idempotency_keys set reply_status = null, reply_body = null where key = ?', [key]);
  await age(key, '16 seconds');
  expect((await post('/v1/sandboxes', { name: key }, key)).status).toBe(201);
  expect((await api.counts()).sandboxes).toBe(before.sandboxes! + 1);
});

test('after 24 hours the key is new again', async () => {
  const key = fresh();
  const first = await post('/v1/sandboxes', { name: key }, key);
  await age(key, '25 hours');
  const later = await post('/v1/sandboxes', { name: `${key}b` }, key);
  expect(later.status).toBe(201);
  expect(later.body.data.sandbox_id).not.toBe(first.body.data.sandbox_id);
});

test.each(['', 'has space', 'x'.repeat(256), 'ünicode'])('an invalid key is 400: %j', async (key) => {
  const reply = await post('/v1/projects', { name: 'never made' }, key);
  expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
  expect(reply.body.details[0].path).toBe('idempotency-key');
});
