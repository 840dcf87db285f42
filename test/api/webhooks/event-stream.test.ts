import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from '../../../api/app.ts';
import { type EventReader, LiveEvents, WaitingEvents } from '../../../api/routes/webhooks/live-events.ts';
import { User } from '../../../db/accounts/user.entity.ts';
import { Event } from '../../../db/core/event.entity.ts';
import { newEvent } from '../../../db/core/events.ts';
import { newId } from '../../../db/core/new-id.ts';
import type { UserId } from '../../../domain/ids.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const url = '/v1/events/stream';
let api: TestApi;
let port: number;
/** Root of an account with two other users. */
let root: Caller;
let ada: Caller;
let grace: Caller;
const open: Stream[] = [];

interface Received {
  id: string | undefined;
  type: string;
  data: Json;
}

interface Stream {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  hasEnded: boolean;
  reply: http.IncomingMessage;
}

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0' } });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  ({ port } = api.app.server.address() as AddressInfo);
  root = await api.addAccount();
  [ada, grace] = [await api.addUser(root), await api.addUser(root)];
});
afterEach(() => {
  for (const { reply } of open.splice(0)) reply.destroy();
});
afterAll(() => api.stop());

const em = () => api.orm.em.fork();

async function follow(headers: Record<string, string>, query = '', at = port): Promise<Stream> {
  const [reply] = (await once(http.get({ port: at, path: url + query, headers, agent: false }), 'response')) as [
    http.IncomingMessage,
  ];
  const stream = { status: reply.statusCode!, headers: reply.headers, text: '', hasEnded: false, reply };
  reply.on('data', (chunk) => {
    stream.text += chunk;
  });
  reply
    .on('error', () => {})
    .once('close', () => {
      stream.hasEnded = true;
    });
  open.push(stream);
  return stream;
}

const byKey = ({ key }: Caller) => ({ 'x-api-key': key });

function read({ text }: Stream): Received[] {
  return text.split('\n\n').flatMap((frame) => {
    const [, id, type, data] = /^(?:id: (.*)\n)?event: (.*)\ndata: (.*)$/.exec(frame) ?? [];
    return type === undefined ? [] : [{ id, type, data: JSON.parse(data!) }];
  });
}

const objectsIn = (stream: Stream) => read(stream).flatMap(({ data }) => data.object_id ?? []);
const typesIn = (stream: Stream) => read(stream).map(({ type }) => type);

/** Records events of new objects, as the platform does in its transactions. */
async function record(of: Caller, { count = 1, userId = of.userId as UserId | null, createdAt = new Date() } = {}) {
  const fork = em();
  const objectIds = Array.from({ length: count }, () => newId('sandbox'));
  for (const objectId of objectIds) {
    const data = { sandbox_id: objectId, status: 'paused', reason: 'user_requested', name: 'a secret name', list: [1] };
    fork.create(Event, newEvent({ objectId, accountId: of.accountId, userId }, 1, 'sandbox.paused', data, createdAt));
  }
  await fork.flush();
  return objectIds;
}

test('an event arrives once, with its id, its type and what it is about', async () => {
  const stream = await follow(byKey(ada));
  expect([stream.status, stream.headers]).toEqual([
    200,
    expect.objectContaining({ 'content-type': 'text/event-stream', 'cache-control': 'no-store' }),
  ]);
  await until(() => typesIn(stream)[0] === 'ready');
  const [objectId] = await record(ada);
  await until(() => objectsIn(stream).length > 0);
  const [later] = await record(ada);
  await until(() => objectsIn(stream).includes(later!));
  const [first, ...others] = read(stream).slice(1);
  expect(first).toEqual({
    id: expect.stringMatching(/^evt-/),
    type: 'sandbox.paused',
    data: {
      ...{ event_id: first!.id, type: 'sandbox.paused', object_id: objectId, created_at: expect.any(String) },
      ...{ sandbox_id: objectId, status: 'paused', reason: 'user_requested' },
    },
  });
  expect(others.map(({ data }) => data.object_id)).toEqual([later]);
});

test('users see their own events, root users see the events of their account, and no caller sees events of another account', async () => {
  const stranger = await api.addAccount();
  const callers = [root, ada, grace, stranger];
  const streams = await Promise.all(callers.map((caller) => follow(byKey(caller))));
  const own = await Promise.all(callers.map(async (caller) => (await record(caller))[0]!));
  const [ofAccount] = await record(root, { userId: null });
  await until(() => objectsIn(streams[0]!).includes(ofAccount!));
  for (const [index, stream] of streams.entries()) await until(() => objectsIn(stream).includes(own[index]!));
  const all = [...own, ofAccount!];
  const seen = streams.map((stream) => all.filter((objectId) => objectsIn(stream).includes(objectId)));
  expect(seen).toEqual([[own[0], own[1], own[2], ofAccount], [own[1]], [own[2]], [own[3]]]);
});

describe('the list of the newest events', () => {
  const objectsOf = async (caller: Caller, query = '') => {
    const { status, body } = await api.send(caller, 'GET', `/v1/events${query}`);
    expect(status).toBe(200);
    return body.data.events.map((each: Json) => each.object_id);
  };

  test('has those of the last day alone, the newest first', async () => {
    const caller = await api.addAccount();
    const hoursAgo = (hours: number) => ({ createdAt: new Date(Date.now() - hours * 3_600_000) });
    const [old] = await record(caller, hoursAgo(25));
    const [first] = await record(caller, hoursAgo(23));
    const [second] = await record(caller);
    const reply = await api.send(caller, 'GET', '/v1/events');
    expect(reply.body.data.events[0]).toEqual({
      ...{ event_id: expect.stringMatching(/^evt-/), type: 'sandbox.paused', object_id: second, sandbox_id: second },
      created_at: expect.any(String),
    });
    const seen = await objectsOf(caller);
    expect(seen.filter((each: (typeof seen)[number]) => [old, first, second].includes(each))).toEqual([second, first]);
    expect(await objectsOf(caller, '?limit=1')).toEqual([second]);
  });

  test('has what the caller may see', async () => {
    const stranger = await api.addAccount();
    const [ofAda, ofGrace, ofStranger] = [
      (await record(ada))[0]!,
      (await record(grace))[0]!,
      (await record(stranger))[0]!,
    ];
    const [ofAccount] = await record(root, { userId: null });
    const all = [ofAda, ofGrace, ofStranger, ofAccount!];
    const seenBy = async (caller: Caller, query = '') => {
      const seen = await objectsOf(caller, query);
      return all.filter((each) => seen.includes(each));
    };
    expect(await seenBy(root)).toEqual([ofAda, ofGrace, ofAccount]);
    expect(await seenBy(ada)).toEqual([ofAda]);
    expect(await seenBy(stranger)).toEqual([ofStranger]);
    expect(await seenBy(api.root)).toEqual([]);
    expect(await seenBy(api.root, `?account_id=${root.accountId}`)).toEqual([ofAda, ofGrace, ofAccount]);
    expect(await seenBy(api.root, '?account_id=all')).toEqual(all);
    expect((await api.send(root, 'GET', '/v1/events?account_id=all')).status).toBe(403);
  });

  test.each(['-1', '1.5', 'many'])('refuses a limit of %s', async (limit) => {
    const { status, body } = await api.send(ada, 'GET', `/v1/events?limit=${limit}`);
    expect([status, body.code]).toEqual([400, 'invalid_pagination']);
  });
});

test('admins see their own account, one that they name, or all', async () => {
  const streams = await Promise.all([
    follow(byKey(api.root)),
    follow(byKey(api.root), `?account_id=${root.accountId}`),
    follow(byKey(api.root), '?account_id=all'),
  ]);
  const [own, foreign] = [(await record(api.root))[0]!, (await record(ada))[0]!];
  await until(() => streams.every((stream) => objectsIn(stream).some((each) => [own, foreign].includes(each))));
  await until(() => [own, foreign].every((each) => objectsIn(streams[2]!).includes(each)));
  const seen = streams.map((stream) => [own, foreign].map((each) => objectsIn(stream).includes(each)));
  expect(seen).toEqual([
    [true, false],
    [false, true],
    [true, true],
  ]);
  const refused = async (caller: Caller, query: string) => {
    const { status, body } = await api.send(caller, 'GET', url + query);
    return [status, body.code];
  };
  expect(await refused(root, '?account_id=all')).toEqual([403, 'admin_required']);
  expect(await refused(api.root, '?account_id=acc-none')).toEqual([404, 'not_found']);
  expect((await api.send(null, 'GET', url)).status).toBe(401);
});

test('an event whose transaction commits after later ones arrives, too', async () => {
  const stream = await follow(byKey(ada));
  await until(() => typesIn(stream).includes('ready'));
  const objectId = newId('sandbox');
  const object = { objectId, accountId: ada.accountId, userId: ada.userId };
  let later = '';
  await em().transactional(async (tx) => {
    tx.create(Event, newEvent(object, 1, 'sandbox.failed', {}, new Date(Date.now() - 3000)));
    await tx.flush();
    [later = ''] = await record(ada);
    await until(() => objectsIn(stream).includes(later));
    expect(objectsIn(stream)).not.toContain(objectId);
  });
  await until(() => objectsIn(stream).includes(objectId));
  expect(objectsIn(stream).filter((each) => each === later)).toHaveLength(1);
});

test('a burst is one event `many`, also for a stream that opens in it, and not in other accounts', async () => {
  const stranger = await api.addAccount();
  const [ofRoot, ofGrace, ofStranger] = await Promise.all([root, grace, stranger].map((each) => follow(byKey(each))));
  await until(() => [ofRoot, ofGrace, ofStranger].every((stream) => typesIn(stream!).includes('ready')));
  await delay(1100);
  await record(ada, { count: 101 });
  await until(() => typesIn(ofRoot!).includes('many'));
  const late = await follow(byKey(root));
  await until(() => typesIn(late).includes('many'));
  const [next, own] = [(await record(ada))[0]!, (await record(stranger))[0]!];
  await until(() => objectsIn(ofRoot!).includes(next) && objectsIn(ofStranger!).includes(own));
  expect(typesIn(ofRoot!).filter((type) => type === 'many')).toHaveLength(1);
  expect([...typesIn(ofGrace!), ...typesIn(ofStranger!)]).not.toContain('many');
});

test('the events that wait for a slow reader are bounded, and become one `many`', async () => {
  const waiting = new WaitingEvents();
  const signal = new AbortController().signal;
  const frames = waiting.frames({ keepaliveMs: 20, signal });
  const next = async () => String((await frames.next()).value);
  expect(await next()).toBe('event: ready\ndata: {}\n\n');
  expect(await next()).toBe('event: keepalive\ndata: {}\n\n');
  const event = {
    ...{ eventId: 'evt-a', accountId: root.accountId, userId: null, objectId: 'sbx-a', type: 'sandbox.failed' },
    ...{ data: {}, createdAt: new Date(0) },
  };
  for (let at = 0; at < 100; at += 1) waiting.add([event]);
  expect((await next()).match(/^id: evt-a$/gm)).toHaveLength(100);
  for (let at = 0; at < 1000; at += 1) waiting.add([event]);
  expect(await next()).toBe('event: many\ndata: {}\n\n');
  waiting.end();
  expect((await frames.next()).done).toBe(true);
});

describe('a stream ends', () => {
  async function signIn({ userId }: Caller): Promise<Record<string, string>> {
    const password = 'korrekt pferd batterie';
    await em().nativeUpdate(User, { userId }, { passwordHash: await api.dependencies.passwords.hash(password) });
    const { email } = await em().findOneOrFail(User, { userId });
    const reply = await api.send(null, 'POST', '/v1/auth/session', { email, password });
    return { cookie: String(reply.headers['set-cookie']).split(';')[0]! };
  }

  test.each<[string, (user: Caller, headers: Record<string, string>) => Promise<unknown>]>([
    [
      'with its session',
      (_user, headers) =>
        api.client.send('DELETE', '/v1/auth/session', { headers: { ...headers, 'sec-fetch-site': 'same-origin' } }),
    ],
    [
      'when its session expires',
      (user) =>
        em().execute("update sessions set expires_at = now() - interval '1 ms' where user_id = ?", [user.userId]),
    ],
    ['when its user is disabled', (user) => em().nativeUpdate(User, { userId: user.userId }, { status: 'disabled' })],
    [
      'when its user becomes a root user',
      (user) => em().nativeUpdate(User, { userId: user.userId }, { isRootUser: true }),
    ],
  ])('%s', async (_what, change) => {
    const user = await api.addUser(root);
    const headers = await signIn(user);
    const [stream, other] = [await follow(headers), await follow(byKey(grace))];
    await until(() => typesIn(stream).includes('ready'));
    const [before] = await record(user);
    await until(() => objectsIn(stream).includes(before!));
    await change(user, headers);
    await until(() => stream.hasEnded);
    expect([stream.reply.complete, other.hasEnded]).toEqual([true, false]);
  });

  test('when its process stops', async () => {
    const app = createApp(api.dependencies);
    await app.listen({ host: '127.0.0.1', port: 0 });
    const stream = await follow(byKey(ada), '', (app.server.address() as AddressInfo).port);
    await until(() => typesIn(stream).includes('ready'));
    const closed = app.close();
    await app.drained();
    app.server.closeAllConnections();
    await closed;
    await until(() => stream.hasEnded);
    expect(stream.reply.complete).toBe(true);
  });
});

test('a user and an account may have a number of streams open, and a closed one frees its place', async () => {
  const user = await api.addUser(root);
  for (let at = 0; at < 16; at += 1) expect((await follow(byKey(user))).status).toBe(200);
  const refused = await api.send(user, 'GET', url);
  expect([refused.status, refused.body.code]).toEqual([429, 'event_stream_limit_reached']);
  expect((await follow(byKey(grace))).status).toBe(200);
  open.find(({ reply }) => !reply.destroyed)!.reply.destroy();
  await until(async () => (await follow(byKey(user))).status === 200);

  const live = new LiveEvents(api.dependencies);
  const [accountId, ids] = [root.accountId, Array.from({ length: 17 }, () => newId('user'))];
  const leave = ids.slice(0, 16).flatMap((userId) => ids.slice(0, 16).map(() => live.admit({ userId, accountId })));
  expect(() => live.admit({ userId: ids[16]!, accountId })).toThrow('Your account has too many streams');
  expect(() => live.admit({ userId: ids[16]!, accountId: 'acc-other' })).not.toThrow();
  leave[0]!();
  expect(() => live.admit({ userId: ids[16]!, accountId })).not.toThrow();
});

test('the API reads no events while no stream is open, and after a gap it tells each reader to read everything', async () => {
  let reads = 0;
  let isDown = false;
  const orm = {
    get em() {
      reads += 1;
      if (isDown) throw new Error('the database is away');
      return api.orm.em;
    },
  } as typeof api.orm;
  const live = new LiveEvents({ orm, logger: api.dependencies.logger });
  const received: string[] = [];
  const signal = new AbortController().signal;
  const add = () => {
    const waiting = new WaitingEvents();
    const rights = { role: 'user' as const, isRootUser: false };
    const scope = { rows: 'user' as const, accountId: grace.accountId, userId: grace.userId };
    const reader: EventReader = { scope, credentialId: grace.keyId, rights, waiting };
    const leave = live.watch(reader);
    void (async () => {
      for await (const frame of waiting.frames({ keepaliveMs: 60_000, signal })) received.push(String(frame));
    })();
    return () => {
      leave();
      waiting.end();
    };
  };
  const leave = add();
  await until(() => reads >= 2);
  isDown = true;
  await until(() => reads >= 8);
  isDown = false;
  await until(() => received.some((frame) => frame.startsWith('event: many')));
  leave();
  await delay(1500);
  const idle = reads;
  await delay(1500);
  expect(reads).toBe(idle);
}, 30_000);
