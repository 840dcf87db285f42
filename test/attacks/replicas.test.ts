import { createOrm, type Orm } from '../../db/orm.ts';
import { startApi, type TestApi } from '../api/test-api.ts';

/** Two replicas of the API on one database: what one of them ends is over on the other at once. */
let first: TestApi;
let second: TestApi;
let orm: Orm;
let made = 0;

beforeAll(async () => {
  first = await startApi({ planName: 'enterprise' });
  orm = await createOrm(first.settings.DATABASE_URL, 3);
  second = await startApi({
    on: { orm, account: { ...first.root, apiKey: first.root.key }, commands: first.commands },
  });
});
afterAll(async () => {
  await second.stop();
  await orm.close();
  await first.stop();
});

const standing = (key: string) =>
  Promise.all([first, second].map(async (api) => (await api.client.send('GET', '/v1/users/me', { key })).status));

async function newKey(): Promise<{ id: string; key: string }> {
  made += 1;
  const reply = await first.send(first.root, 'POST', '/v1/api-keys', { name: `key ${made}` });
  expect(reply.status).toBe(201);
  return { id: reply.body.data.key_id, key: reply.body.data.api_key };
}

test('a key works on every replica as soon as it is told', async () => {
  expect(await standing((await newKey()).key)).toEqual([200, 200]);
});

test('a disabled key is refused at once on every replica, and taken again when it is enabled', async () => {
  const { id, key } = await newKey();
  expect(await standing(key)).toEqual([200, 200]);
  await first.send(first.root, 'PUT', `/v1/api-keys/${id}/status`, { is_active: false });
  expect(await standing(key)).toEqual([401, 401]);
  await second.send(first.root, 'PUT', `/v1/api-keys/${id}/status`, { is_active: true });
  expect(await standing(key)).toEqual([200, 200]);
});

test('a deleted key is refused at once on every replica', async () => {
  const { id, key } = await newKey();
  expect(await standing(key)).toEqual([200, 200]);
  await second.send(first.root, 'DELETE', `/v1/api-keys/${id}`);
  expect(await standing(key)).toEqual([401, 401]);
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
  for (const each of wrong) expect([each.length, await standing(each)]).toEqual([each.length, [401, 401]]);
});
