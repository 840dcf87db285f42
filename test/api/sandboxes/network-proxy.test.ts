import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SettingsError } from '../../../platform/config/settings.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
const proxy = {
  proxy_url: 'http://egress:s%40fe@10.1.2.3:3128',
  proxy_configs: { host: '10.1.2.3', port: 3128, username: 'egress', password: 's@fe' },
};
beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_SANDBOX_PROXY_URL: proxy.proxy_url } });
});
afterAll(() => api.stop());

const create = async (body: Json, headers: Record<string, string> = {}): Promise<Json> =>
  (await api.send(api.root, 'POST', '/v1/sandboxes', body, { headers })).body.data;

test('objects of a sandbox with internet access show the proxy, those of other sandboxes do not', async () => {
  const open = await create({ name: 'open' });
  const closed = await create({ name: 'closed', allow_internet_access: false });
  expect(open.network_proxy).toEqual(proxy);
  expect(closed).not.toHaveProperty('network_proxy');
  const { body: list } = await api.send(api.root, 'GET', '/v1/sandboxes');
  const { body: paused } = await api.send(api.root, 'POST', `/v1/sandboxes/${open.sandbox_id}/pause`);
  const { body: object } = await api.send(api.root, 'GET', `/v1/sandboxes/${open.sandbox_id}`);
  const item = list.data.sandboxes.find((each: Json) => each.sandbox_id === open.sandbox_id);
  for (const each of [item, paused.data, object.data]) expect(each.network_proxy).toEqual(proxy);
  const other = list.data.sandboxes.find((each: Json) => each.sandbox_id === closed.sandbox_id);
  expect(other).not.toHaveProperty('network_proxy');
});

test('its password is not stored with an idempotent reply, but a repeated reply contains it', async () => {
  const headers = { 'idempotency-key': 'with-proxy' };
  const first = await create({ name: 'twice' }, headers);
  const rows = await api.orm.em.fork().execute("select reply_body from idempotency_keys where key = 'with-proxy'");
  expect(JSON.stringify(rows)).toContain(first.sandbox_id);
  expect(JSON.stringify(rows)).not.toMatch(/s@fe|s%40fe/);
  expect(await create({ name: 'twice' }, headers)).toEqual(first);
  expect(api.log.join('\n')).not.toMatch(/s@fe|s%40fe/);
});

test.each(['10.1.2.3:3128', 'socks5://10.1.2.3', 'proxy'])(
  'an invalid proxy setting is refused by name: %s',
  async (PLATFORM_SANDBOX_PROXY_URL) => {
    const refusal = await startApi({ env: { PLATFORM_SANDBOX_PROXY_URL } }).catch((error) => error);
    expect(refusal).toBeInstanceOf(SettingsError);
    expect(refusal.message).toContain('PLATFORM_SANDBOX_PROXY_URL');
  },
);

test.each([
  ['PLATFORM_REGION_NETWORKS', 'eu'],
  ['PLATFORM_REGION_NETWORKS', 'eu=192.0.2.0'],
  ['PLATFORM_REGION_NETWORKS', 'eu=192.0.2.0/24,'],
  ['PLATFORM_REGIONS_NEAREST', '=us'],
  ['PLATFORM_SANDBOX_BANDWIDTH_MBPS', '-1'],
])('%s=%s is refused', async (name, value) => {
  const refusal = await startApi({ env: { [name]: value } }).catch((error) => error);
  expect(refusal).toBeInstanceOf(SettingsError);
  expect(refusal.message).toContain(name);
});
