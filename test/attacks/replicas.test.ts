import { once } from 'node:events';
import http from 'node:http';
import { createOrm, type Orm } from '../../db/orm.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
import { send } from '../gateway/client.ts';
import { GatewayProcess } from '../gateway/gateway-process.ts';
import { formatHost } from '../gateway/started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from '../gateway/upstream-server.ts';
import { until } from '../support/until.ts';

/** Two replicas of the API and two gateways on one database: what ends on one of them ends at once on the others. */
let first: TestApi;
let second: TestApi;
let orm: Orm;
let gateways: GatewayProcess[];
let inside: UpstreamServer;
let made = 0;
/** A gateway that misses a change never notices it. On a busy machine a change takes some time to arrive. */
const atOnceMs = 30_000;
let longestMs = 0;

beforeAll(async () => {
  first = await startApi({ planName: 'enterprise' });
  orm = await createOrm(first.settings.DATABASE_URL, 3);
  second = await startApi({
    on: { orm, account: { ...first.root, apiKey: first.root.key }, commands: first.commands },
  });
  const { DATABASE_URL, PLATFORM_SECRET_KEY } = first.settings;
  gateways = await Promise.all([1, 2].map(() => GatewayProcess.start(DATABASE_URL, PLATFORM_SECRET_KEY)));
  inside = await startHttpUpstream((request, reply) =>
    request.url === '/stream' ? reply.write('on') : reply.end('on'),
  );
}, 300_000);
afterAll(async () => {
  await Promise.all(gateways.map((each) => each.stop()));
  for (const each of gateways) each.removeData();
  process.stdout.write(`a change was seen by both gateways after ${Math.round(longestMs)} ms at most\n`);
  await inside.stop();
  await second.stop();
  await orm.close();
  await first.stop();
});

const readStatuses = (key: string) =>
  Promise.all([first, second].map(async (api) => (await api.client.send('GET', '/v1/users/me', { key })).status));

async function newKey(): Promise<{ id: string; key: string }> {
  made += 1;
  const reply = await first.send(first.root, 'POST', '/v1/api-keys', { name: `key ${made}` });
  expect(reply.status).toBe(201);
  return { id: reply.body.data.key_id, key: reply.body.data.api_key };
}

test('a key works on every replica as soon as it is created', async () => {
  expect(await readStatuses((await newKey()).key)).toEqual([200, 200]);
});

test('a disabled key is refused at once on every replica, and taken again when it is enabled', async () => {
  const { id, key } = await newKey();
  expect(await readStatuses(key)).toEqual([200, 200]);
  await first.send(first.root, 'PUT', `/v1/api-keys/${id}/status`, { is_active: false });
  expect(await readStatuses(key)).toEqual([401, 401]);
  await second.send(first.root, 'PUT', `/v1/api-keys/${id}/status`, { is_active: true });
  expect(await readStatuses(key)).toEqual([200, 200]);
});

test('a deleted key is refused at once on every replica', async () => {
  const { id, key } = await newKey();
  expect(await readStatuses(key)).toEqual([200, 200]);
  await second.send(first.root, 'DELETE', `/v1/api-keys/${id}`);
  expect(await readStatuses(key)).toEqual([401, 401]);
});

test('a key with one letter changed, cut or doubled is none', async () => {
  const { key } = await newKey();
  const letter = key.at(-10) === 'a' ? 'b' : 'a';
  const wrong = [
    `${key.slice(0, -10)}${letter}${key.slice(-9)}`,
    key.slice(0, -1),
    `${key}${key}`,
    key.toUpperCase(),
    ` ${key.slice(4)}`,
  ];
  for (const each of wrong) expect([each.length, await readStatuses(each)]).toEqual([each.length, [401, 401]]);
});

/** A sandbox that runs, and the way to it: all its ports lead to one server. */
async function runningSandbox(): Promise<{ url: string; host(port?: number): string; token: string }> {
  const size = { cpu_count: 1, memory_mb: 128, storage_gb: 1 };
  const reply = await first.send(first.root, 'POST', '/v1/sandboxes', size);
  expect(reply.status).toBe(201);
  const id: SandboxId = reply.body.data.sandbox_id;
  await orm.em.fork().execute('update sandboxes set agent_address = ?, agent_port = ? where sandbox_id = ?', [
    inside.address,
    // None of the service's ports is the agent's.
    inside.port + 1,
    id,
  ]);
  const token = deriveSecrets(first.settings).agentToken(id, 1);
  return { url: `/v1/sandboxes/${id}`, host: (port) => formatHost(id, port), token };
}

/** The status from each gateway. */
const answers = (host: string, token?: string) =>
  Promise.all(
    gateways.map(
      async ({ port }) => (await send({ port, host, headers: token ? { 'x-access-token': token } : {} })).status,
    ),
  );
async function allAnswer(status: number, host: string, token?: string): Promise<void> {
  const startedMs = performance.now();
  await until(async () => (await answers(host, token)).every((each) => each === status), atOnceMs);
  longestMs = Math.max(longestMs, performance.now() - startedMs);
}

test("a protected port opens on every gateway with its sandbox's token, and with no other", async () => {
  const [mine, other] = [await runningSandbox(), await runningSandbox()];
  await first.send(first.root, 'POST', `${mine.url}/ports`, {
    port: 8000,
    name: 'web',
    service_port: inside.port,
    is_protected: true,
  });
  const host = mine.host(8000);
  await allAnswer(200, host, mine.token);
  const wrong = [
    undefined,
    other.token,
    `${mine.token}x`,
    mine.token.slice(0, -1),
    mine.token.toUpperCase(),
    first.root.key,
  ];
  for (const token of wrong) expect([token, await answers(host, token)]).toEqual([token, [401, 401]]);
});

test('protection that changes holds at once on every gateway', async () => {
  const { url, host } = await runningSandbox();
  const port = { port: 8000, name: 'web', service_port: inside.port };
  expect(await answers(host(8000))).toEqual([401, 401]);
  await first.send(first.root, 'POST', `${url}/ports`, port);
  await allAnswer(200, host(8000));
  await second.send(first.root, 'DELETE', `${url}/ports/8000`);
  await allAnswer(401, host(8000));
  await second.send(first.root, 'POST', `${url}/ports`, port);
  await allAnswer(200, host(8000));
  await first.send(first.root, 'DELETE', `${url}/ports/8000`);
  await first.send(first.root, 'POST', `${url}/ports`, { ...port, is_protected: true });
  await allAnswer(401, host(8000));
});

test.each([
  ['paused', 'pause', 502],
  ['terminated', 'terminate', 502],
] as const)(
  'a sandbox that is %s is refused at once by every gateway, with its token or without',
  async (_, command, status) => {
    const { url, host, token } = await runningSandbox();
    await first.send(first.root, 'POST', `${url}/ports`, { port: 8000, name: 'web', service_port: inside.port });
    await allAnswer(200, host(8000));
    await first.send(first.root, 'POST', `${url}/${command}`);
    await allAnswer(status, host(8000), token);
    await allAnswer(status, host(8000));
  },
);

test('a sandbox that is deleted is refused at once by every gateway, and what flowed from it ends', async () => {
  const { url, host } = await runningSandbox();
  await first.send(first.root, 'POST', `${url}/ports`, { port: 8000, name: 'web', service_port: inside.port });
  await allAnswer(200, host(8000));
  const flowing = await Promise.all(
    gateways.map(async ({ port }) => {
      const request = http.get({
        port,
        host: '127.0.0.1',
        path: '/stream',
        headers: { host: host(8000) },
        agent: false,
      });
      const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
      await once(
        reply.on('error', () => {}),
        'data',
      );
      return reply.resume();
    }),
  );
  await second.send(first.root, 'DELETE', url);
  await until(() => flowing.every(({ destroyed }) => destroyed), atOnceMs);
  await allAnswer(502, host(8000));
});
