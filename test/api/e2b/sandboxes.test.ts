import { setTimeout as delay } from 'node:timers/promises';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { insertSamples } from '../../../db/usage/sandbox-metrics.ts';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { cloneRows } from '../../support/cloned-rows.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';
import { type E2bReply, sendE2b } from './e2b-client.ts';

let api: TestApi;
let member: Caller;
let colleague: Caller;
let stranger: Caller;
beforeAll(async () => {
  api = await startApi({ planName: 'enterprise' });
  member = await api.addUser(api.root);
  colleague = await api.addUser(api.root);
  stranger = await api.addAccount();
});
afterAll(() => api.stop());

const send = (method: string, path: string, body?: Json, caller = member): Promise<E2bReply> =>
  sendE2b(api, caller, method, path, body === undefined ? {} : { body });

async function create(fields: Json = {}, caller = member): Promise<SandboxId> {
  const { status, body } = await send('POST', '/v2/sandboxes', { templateID: 'base', ...fields }, caller);
  expect(status).toBe(201);
  return body.sandboxID;
}

const row = (sandboxId: SandboxId) => api.orm.em.fork().findOneOrFail(Sandbox, { sandboxId });
const change = (sandboxId: SandboxId, fields: Partial<Sandbox>) =>
  api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, fields);
const info = async (id: SandboxId): Promise<Json> => (await send('GET', `/sandboxes/${id}`)).body;
/** Seconds from now to the end of a sandbox's timeout, rounded up. */
const secondsLeft = async (id: SandboxId) => Math.ceil((Date.parse((await info(id)).endAt) - Date.now()) / 1000);
/** Makes its running phase begin earlier. */
const haveRun = async (id: SandboxId, seconds: number) =>
  change(id, { timeoutFrom: new Date(Date.now() - seconds * 1000) });

/** Every request on one sandbox, with a body that it accepts. */
const requests: { method: string; action: string; body?: Json }[] = [
  { method: 'GET', action: '' },
  { method: 'DELETE', action: '' },
  { method: 'POST', action: '/connect', body: { timeout: 60 } },
  { method: 'POST', action: '/resume', body: { timeout: 60 } },
  { method: 'POST', action: '/pause', body: {} },
  { method: 'POST', action: '/timeout', body: { timeout: 60 } },
  { method: 'POST', action: '/refreshes', body: { duration: 60 } },
  { method: 'GET', action: '/metrics' },
];

describe('a sandbox', () => {
  test('is read with its size, times, state and token', async () => {
    const id = await create({ timeout: 120, metadata: { user: 'ada' }, autoPause: true, allow_internet_access: false });
    const { startedAt, storageGb } = await row(id);
    expect((await send('GET', `/sandboxes/${id}`)).body).toEqual({
      sandboxID: id,
      templateID: expect.stringMatching(/^tpl-/),
      alias: 'base',
      clientID: 'sandbox-platform',
      envdVersion: '0.6.4',
      envdAccessToken: `token-of-${id}`,
      domain: `sandbox.localhost:${api.settings.PLATFORM_GATEWAY_PORT}`,
      startedAt: startedAt!.toISOString(),
      endAt: new Date(startedAt!.getTime() + 120_000).toISOString(),
      cpuCount: 2,
      memoryMB: 512,
      diskSizeMB: storageGb * 1024,
      metadata: { user: 'ada' },
      state: 'running',
      allowInternetAccess: false,
      lifecycle: { autoResume: false, onTimeout: 'pause' },
    });
  });

  test.each([
    [{ PLATFORM_GATEWAY_PUBLIC_PORT: '443', PLATFORM_BASE_DOMAIN: 'box.example.com' }, 'box.example.com'],
    [{ PLATFORM_GATEWAY_PUBLIC_PORT: '8443', PLATFORM_BASE_DOMAIN: 'box.example.com' }, 'box.example.com:8443'],
  ])('has the domain of its gateway: %j', async (env, domain) => {
    const other = await startApi({ env });
    try {
      const { body } = await sendE2b(other, other.root, 'POST', '/v2/sandboxes', { body: { templateID: 'base' } });
      expect(body.domain).toBe(domain);
    } finally {
      await other.stop();
    }
  });

  test.each(requests)(
    'of another account or user, an unknown one and a text that is no id are 404: $method $action',
    async ({ method, action, body }) => {
      const id = await create();
      const before = await row(id);
      for (const caller of [stranger, colleague]) {
        expect((await send(method, `/sandboxes/${id}${action}`, body, caller)).status).toBe(404);
      }
      for (const other of [`sbx-${'a'.repeat(20)}`, 'nothing', '%00']) {
        expect((await send(method, `/sandboxes/${other}${action}`, body)).status).toBe(404);
      }
      expect(await row(id)).toEqual(before);
      const own = await send(method, `/sandboxes/${id}${action}`, body);
      // It is not paused, so it cannot be resumed.
      expect(own.status < 300).toBe(action !== '/resume');
    },
  );

  test.each(['terminating', 'terminated', 'failed'] as const)('that is %s is absent', async (status) => {
    const id = await create();
    await change(id, { status });
    for (const { method, action, body } of requests) {
      expect((await send(method, `/sandboxes/${id}${action}`, body)).status).toBe(404);
    }
    expect((await send('POST', `/v2/sandboxes/${id}/connect`)).status).toBe(404);
    const listed = await send('GET', '/v2/sandboxes');
    expect(listed.body.map((each: Json) => each.sandboxID)).not.toContain(id);
  });

  test('is killed once, and stays readable under /v1', async () => {
    const id = await create();
    expect((await send('DELETE', `/sandboxes/${id}`)).status).toBe(204);
    expect((await send('DELETE', `/sandboxes/${id}`)).status).toBe(404);
    const { data } = (await api.send(member, 'GET', `/v1/sandboxes/${id}`)).body;
    expect(data.status).toBe('terminated');
  });

  test('that ends between the read and the command is absent, too', async () => {
    const id = await create();
    api.commands.failNext = new AppError('sandbox_ended', 'The sandbox has ended');
    expect((await send('POST', `/sandboxes/${id}/pause`)).body).toEqual({
      code: 404,
      message: 'The sandbox has ended',
    });
  });
});

describe('pause and resume', () => {
  test('a pause keeps the memory', async () => {
    const id = await create();
    expect((await send('POST', `/sandboxes/${id}/pause`, { memory: true })).status).toBe(204);
    expect((await info(id)).state).toBe('paused');
  });

  test('a pause without the memory is refused', async () => {
    const id = await create();
    const { status, body } = await send('POST', `/sandboxes/${id}/pause`, { memory: false });
    expect([status, body.message]).toEqual([400, 'memory must be true: a pause keeps the memory']);
    expect((await info(id)).state).toBe('running');
  });

  test('a paused sandbox ends when it is removed', async () => {
    const id = await create();
    await send('POST', `/sandboxes/${id}/pause`);
    const { pausedAt, persistenceDays } = await row(id);
    expect(persistenceDays).toBeGreaterThan(0);
    const removedAt = new Date(pausedAt!.getTime() + persistenceDays! * 86_400_000);
    expect((await info(id)).endAt).toBe(removedAt.toISOString());
    await change(id, { persistenceDays: null });
    expect((await info(id)).endAt).toBe(pausedAt!.toISOString());
  });

  test('resume is 201 for a paused sandbox, with a timeout from now, and 409 for a running one', async () => {
    const id = await create({ timeout: 1000 });
    expect((await send('POST', `/sandboxes/${id}/resume`, {})).status).toBe(409);
    await send('POST', `/sandboxes/${id}/pause`);
    const { status, body } = await send('POST', `/sandboxes/${id}/resume`);
    expect([status, body.sandboxID, body.envdAccessToken]).toEqual([201, id, `token-of-${id}`]);
    expect(await secondsLeft(id)).toBe(15);
  });

  test('a resume cannot change what happens at the timeout', async () => {
    const id = await create();
    await send('POST', `/sandboxes/${id}/pause`);
    expect((await send('POST', `/sandboxes/${id}/resume`, { autoPause: true })).status).toBe(400);
    expect((await send('POST', `/sandboxes/${id}/resume`, { autoPause: false })).status).toBe(201);
  });
});

describe.each(['', '/v2'] as const)('%s connect', (version) => {
  const connect = (id: SandboxId, body?: Json) => send('POST', `${version}/sandboxes/${id}/connect`, body);

  test('resumes a paused sandbox with the timeout, also with a shorter one', async () => {
    const id = await create({ timeout: 1000 });
    await send('POST', `/sandboxes/${id}/pause`);
    const { status, body } = await connect(id, { timeout: 50 });
    expect([status, body.sandboxID]).toEqual([201, id]);
    expect(await info(id)).toMatchObject({ state: 'running' });
    expect(await secondsLeft(id)).toBe(50);
  });

  test('extends the timeout of a running sandbox, and never shortens it', async () => {
    const id = await create({ timeout: 100 });
    await haveRun(id, 60);
    expect((await connect(id, { timeout: 30 })).status).toBe(200);
    expect(await secondsLeft(id)).toBe(40);
    expect((await connect(id, { timeout: 70 })).status).toBe(200);
    expect(await secondsLeft(id)).toBe(70);
  });

  test('sends no command to a sandbox that runs for long enough', async () => {
    const id = await create({ timeout: 100 });
    const before = api.commands.calls.length;
    expect((await connect(id, { timeout: 10 })).status).toBe(200);
    expect(api.commands.calls.slice(before)).toEqual([]);
  });

  test('without the memory starts a paused sandbox again on its disk', async () => {
    const id = await create();
    await send('POST', `/sandboxes/${id}/pause`);
    const before = api.commands.calls.length;
    expect((await connect(id, { timeout: 50, memory: false })).status).toBe(201);
    expect(api.commands.calls.slice(before)).toEqual(['restart', 'connect 50']);
    expect(await secondsLeft(id)).toBe(50);
    expect((await connect(id, { timeout: 10, memory: false })).status).toBe(200);
    expect(api.commands.calls.slice(before)).toHaveLength(2);
  });

  test(`without a timeout ${version === '' ? 'is refused' : 'is for 300 seconds'}`, async () => {
    const id = await create({ timeout: 20 });
    const replies = [await connect(id), await connect(id, {})];
    expect(replies.map(({ status }) => status)).toEqual(version === '' ? [400, 400] : [200, 200]);
    expect(await secondsLeft(id)).toBe(version === '' ? 20 : 300);
  });

  test('is limited by the plan', async () => {
    const id = await create();
    expect((await connect(id, { timeout: 100_000_000 })).body.message).toContain('timeout must be at most');
  });
});

describe('timeouts', () => {
  test('count from now, and may be shorter or longer than before', async () => {
    const id = await create({ timeout: 100 });
    await haveRun(id, 60);
    for (const timeout of [500, 20]) {
      expect((await send('POST', `/sandboxes/${id}/timeout`, { timeout })).status).toBe(204);
      expect([timeout, timeout + 1]).toContain(await secondsLeft(id));
    }
  });

  test('of 0 or 1 second end the sandbox in a moment', async () => {
    const id = await create({ timeout: 100 });
    for (const timeout of [0, 1]) {
      expect((await send('POST', `/sandboxes/${id}/timeout`, { timeout })).status).toBe(204);
      expect(await secondsLeft(id)).toBeLessThanOrEqual(3);
    }
  });

  test('of a sandbox that starts count from its start', async () => {
    const id = await create({ timeout: 100 });
    await change(id, { status: 'starting', timeoutFrom: null });
    expect((await send('POST', `/sandboxes/${id}/timeout`, { timeout: 30 })).status).toBe(204);
    expect((await row(id)).timeoutSeconds).toBe(30);
  });

  test('of a paused sandbox are changed only by a connect', async () => {
    const id = await create();
    await send('POST', `/sandboxes/${id}/pause`);
    for (const [action, body] of [
      ['timeout', { timeout: 10 }],
      ['refreshes', {}],
    ] as const) {
      const reply = await send('POST', `/sandboxes/${id}/${action}`, body);
      expect([reply.status, reply.body.message]).toEqual([404, expect.stringContaining('is paused; connect to it')]);
    }
  });

  test.each([{}, { timeout: -1 }, { timeout: '10' }, { timeout: 100_000_000 }])('%j is refused', async (body) => {
    const id = await create();
    expect((await send('POST', `/sandboxes/${id}/timeout`, body)).status).toBe(400);
  });

  test('are extended by a refresh to at least 15 seconds, and never shortened', async () => {
    const id = await create({ timeout: 100 });
    await haveRun(id, 95);
    expect((await send('POST', `/sandboxes/${id}/refreshes`)).status).toBe(204);
    expect([15, 16]).toContain(await secondsLeft(id));
    expect((await send('POST', `/sandboxes/${id}/refreshes`, { duration: 200 })).status).toBe(204);
    expect([200, 201]).toContain(await secondsLeft(id));
    expect((await send('POST', `/sandboxes/${id}/refreshes`, { duration: 5 })).status).toBe(204);
    expect([200, 201]).toContain(await secondsLeft(id));
  });
});

describe('lists', () => {
  let lister: Caller;
  const names = new Map<string, string>();
  beforeAll(async () => {
    lister = await api.addUser(api.root);
    const make = async (name: string, fields: Json = {}) => {
      const id = await create({ metadata: { name, ...fields.metadata }, ...fields.more }, lister);
      names.set(id, name);
      return id;
    };
    await make('one', { metadata: { user: 'ada & co', app: 'prod' } });
    const two = await make('two', { metadata: { user: 'bob' } });
    await make('three', { more: { templateID: 'code-interpreter-v1' } });
    const gone = await make('gone');
    const starting = await make('four');
    await send('POST', `/sandboxes/${two}/pause`, {}, lister);
    await send('DELETE', `/sandboxes/${gone}`, undefined, lister);
    await change(starting, { status: 'starting', startedAt: null });
  });

  const list = async (path: string, caller = lister): Promise<string[]> => {
    const { status, body } = await send('GET', path, undefined, caller);
    expect(status).toBe(200);
    return body.map((item: Json) => names.get(item.sandboxID));
  };

  test.each([
    ['', ['four', 'three', 'two', 'one']],
    ['?order=asc', ['one', 'two', 'three', 'four']],
    ['?state=running', ['four', 'three', 'one']],
    ['?state=paused', ['two']],
    ['?state=running,paused', ['four', 'three', 'two', 'one']],
    ['?state=running&state=paused&order=asc', ['one', 'two', 'three', 'four']],
    // Keys and values are encoded once more than the query.
    ['?metadata=user%3Dada%252520%252526%252520co', ['one']],
    [
      `?metadata=${encodeURIComponent(new URLSearchParams({ user: encodeURIComponent('ada & co') }).toString())}`,
      ['one'],
    ],
    ['?metadata=user%3Dbob', ['two']],
    ['?metadata=user%3Dnobody', []],
    ['?template=base&order=asc', ['one', 'two', 'four']],
    ['?template=code-interpreter-v1', ['three']],
    ['?template=nothing', []],
    ['?startedAfter=2020-01-01T00:00:00.000Z', ['four', 'three', 'two', 'one']],
    ['?startedAfter=2999-01-01T00:00:00.000Z', []],
  ])('GET /v2/sandboxes%s has %j', async (query, expected) => {
    expect(await list(`/v2/sandboxes${query}`)).toEqual(expected);
  });

  test('a template is also found by its id, and a time divides the list', async () => {
    const items = (await send('GET', '/v2/sandboxes?order=asc', undefined, lister)).body;
    expect(await list(`/v2/sandboxes?template=${items[2].templateID}`)).toEqual(['three']);
    const { startedAt } = items[1];
    expect(await list(`/v2/sandboxes?order=asc&startedAfter=${startedAt}`)).toEqual(['two', 'three', 'four']);
  });

  test('the first version lists those that run', async () => {
    expect(await list('/sandboxes')).toEqual(['four', 'three', 'one']);
    expect(await list('/sandboxes?metadata=name%3Dthree')).toEqual(['three']);
  });

  test('the first version refuses a list that is longer than a page', async () => {
    const busy = await api.addUser(api.root);
    const id = await create({}, busy);
    await cloneRows(
      api.orm.em,
      'sandboxes',
      'sandbox_id',
      100,
      { metadata: `'{"is":"cloned"}'` },
      `sandbox_id = '${id}'`,
    );
    const { status, body } = await send('GET', '/sandboxes', undefined, busy);
    expect([status, body.message]).toEqual([400, expect.stringContaining('use GET /v2/sandboxes')]);
    expect((await send('GET', '/sandboxes?metadata=is%3Dcloned', undefined, busy)).body).toHaveLength(100);
    await api.orm.em.fork().nativeDelete(Sandbox, { ownerUserId: busy.userId });
  });

  test('a user sees their own sandboxes, the account root those of the account, others none of them', async () => {
    const mine = [...names.keys()];
    const ids = async (caller: Caller) =>
      (await send('GET', '/v2/sandboxes', undefined, caller)).body.map((each: Json) => each.sandboxID);
    expect((await ids(colleague)).filter((id: string) => mine.includes(id))).toEqual([]);
    expect((await ids(stranger)).filter((id: string) => mine.includes(id))).toEqual([]);
    expect((await ids(api.root)).filter((id: string) => mine.includes(id))).toHaveLength(4);
  });

  test('pages lead to each other, and the last one to none', async () => {
    const seen: string[] = [];
    let token: unknown = '';
    for (let pages = 0; token !== undefined; pages++) {
      expect(pages).toBeLessThan(5);
      const next = token === '' ? '' : `&nextToken=${encodeURIComponent(String(token))}`;
      const { body, headers } = await send('GET', `/v2/sandboxes?limit=1${next}`, undefined, lister);
      expect(body).toHaveLength(1);
      seen.push(names.get(body[0].sandboxID)!);
      token = headers['x-next-token'];
    }
    expect(seen).toEqual(['four', 'three', 'two', 'one']);
  });

  test('a token of another list, order or caller is refused', async () => {
    const { headers } = await send('GET', '/v2/sandboxes?limit=1', undefined, lister);
    const token = `nextToken=${encodeURIComponent(String(headers['x-next-token']))}`;
    expect((await send('GET', `/v2/sandboxes?${token}`, undefined, lister)).status).toBe(200);
    for (const [query, caller] of [
      ['order=asc&', lister],
      ['state=running&', lister],
      ['', colleague],
    ] as const) {
      const { status, body } = await send('GET', `/v2/sandboxes?${query}${token}`, undefined, caller);
      expect([status, body.message]).toEqual([400, expect.stringMatching(/^nextToken /)]);
    }
  });

  test.each(['limit=101', 'limit=x', 'order=up', 'state=ended', 'startedAfter=yesterday', 'metadata=x'])(
    '%s is refused',
    async (query) => {
      expect((await send('GET', `/v2/sandboxes?${query}`, undefined, lister)).status).toBe(400);
    },
  );
});

describe('metrics', () => {
  test('are the samples from the creation on, or those of the time that is named', async () => {
    const id = await create();
    expect((await send('GET', `/sandboxes/${id}/metrics`)).body).toEqual([]);
    const at = new Date(Math.floor((Date.now() - 600_000) / 5000) * 5000);
    await change(id, { createdAt: new Date(at.getTime() - 1000) });
    for (const [index, memoryBytes] of [100, 200, 300].entries()) {
      const usage = { sandboxId: id, cpuSeconds: 5, overSeconds: 5, memoryBytes, diskBytes: 7, diskTotalBytes: 9 };
      const after = new Date(at.getTime() + index * 5000);
      await insertSamples(api.orm.em, after, [{ ...usage, receivedBytes: 0, sentBytes: 0 }]);
    }
    const { body } = await send('GET', `/sandboxes/${id}/metrics`);
    expect(body.map((each: Json) => each.memUsed)).toEqual([100, 200, 300]);
    expect(body[0]).toEqual({
      timestamp: at.toISOString(),
      timestampUnix: at.getTime() / 1000,
      cpuCount: 2,
      cpuUsedPct: 50,
      memUsed: 100,
      memTotal: 512 * 1024 * 1024,
      memCache: 0,
      diskUsed: 7,
      diskTotal: 9,
    });
    const second = at.getTime() / 1000 + 5;
    const some = await send('GET', `/sandboxes/${id}/metrics?start=${second}&end=${second}`);
    expect(some.body.map((each: Json) => each.memUsed)).toEqual([200]);
    expect((await send('GET', `/sandboxes/${id}/metrics?start=now`)).status).toBe(400);
  });
});

describe('logs', () => {
  const messages = async (path: string): Promise<string[]> => {
    const { status, body } = await send('GET', path);
    expect(status).toBe(200);
    return (body.logEntries ?? body.logs).map((entry: Json) => entry.fields.event ?? entry.message);
  };

  test('have the events of the life, also after its end, as JSON in lines', async () => {
    const id = await create();
    await send('POST', `/sandboxes/${id}/pause`);
    await send('DELETE', `/sandboxes/${id}`);
    const { body } = await send('GET', `/sandboxes/${id}/logs`);
    const events = ['sandbox.created', 'sandbox.started', 'sandbox.paused', 'sandbox.stopped', 'sandbox.terminated'];
    expect(body.logs.map(({ line }: Json) => JSON.parse(line).event)).toEqual(events);
    expect(JSON.parse(body.logs[2].line)).toEqual({
      level: 'info',
      message: 'Its processes are frozen, or ended with the disk kept',
      logger: 'platform',
      event: 'sandbox.paused',
      status: 'paused',
      reason: 'user_requested',
    });
    expect(body.logEntries.map((entry: Json) => entry.timestamp)).toEqual(
      body.logs.map((each: Json) => each.timestamp),
    );
    expect(await messages(`/v2/sandboxes/${id}/logs`)).toEqual(events);
    expect(await messages(`/v2/sandboxes/${id}/logs?direction=backward&limit=2`)).toEqual(
      events.toReversed().slice(0, 2),
    );
    expect(await messages(`/v2/sandboxes/${id}/logs?search=frozen`)).toEqual(['sandbox.paused']);
    expect(await messages(`/v2/sandboxes/${id}/logs?level=warn`)).toEqual([]);
    expect(await messages(`/sandboxes/${id}/logs?limit=1`)).toEqual(['sandbox.created']);
  });

  test('go on after the time of the last entry', async () => {
    const id = await create();
    // Events have milliseconds.
    await delay(5);
    await send('POST', `/sandboxes/${id}/pause`);
    const { body } = await send('GET', `/sandboxes/${id}/logs`);
    const lastMs = Date.parse(body.logs.at(-1).timestamp);
    expect(await messages(`/sandboxes/${id}/logs?start=${lastMs}`)).toEqual(['sandbox.paused']);
    expect(await messages(`/sandboxes/${id}/logs?start=${lastMs + 1}`)).toEqual([]);
    const firstMs = Date.parse(body.logs[0].timestamp);
    expect(await messages(`/v2/sandboxes/${id}/logs?direction=backward&cursor=${firstMs}`)).toEqual([
      'sandbox.created',
    ]);
  });

  test('of a failed sandbox have the reason and the end of the output of its command', async () => {
    const id = await create();
    const failure = { message: 'The command ended', exitCode: 3, outOfMemory: false, commandOutput: 'one\n\ntwo\n' };
    await api.commands.life.fail(id, 'runtime_exited', failure, new Date());
    const { body } = await send('GET', `/v2/sandboxes/${id}/logs?level=info`);
    expect(body.logs.slice(-3)).toMatchObject([
      { level: 'info', message: 'one', fields: { logger: 'command' } },
      { level: 'info', message: 'two', fields: { logger: 'command' } },
      { level: 'error', message: 'The command ended', fields: { event: 'sandbox.failed', reason: 'runtime_exited' } },
    ]);
    expect(await messages(`/v2/sandboxes/${id}/logs?level=error`)).toEqual(['sandbox.failed']);
    expect((await messages(`/v2/sandboxes/${id}/logs?direction=backward`)).slice(0, 3)).toEqual([
      ...['sandbox.failed', 'two', 'one'],
    ]);
  });

  test.each(['sandboxes', 'v2/sandboxes'])('of /%s of another user or account are 404', async (path) => {
    const id = await create();
    for (const caller of [colleague, stranger]) {
      expect((await send('GET', `/${path}/${id}/logs`, undefined, caller)).status).toBe(404);
    }
    expect((await send('GET', `/${path}/nothing/logs`)).status).toBe(404);
    expect((await send('GET', `/${path}/${id}/logs?limit=-1`)).status).toBe(400);
  });
});
