import type { SandboxId } from '../../../domain/ids.ts';
import { addUsage } from '../../support/added-usage.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

let api: TestApi;
let member: Caller;
beforeAll(async () => {
  api = await startApi({
    planName: 'enterprise',
    env: { PLATFORM_BILLING: 'on', TEMPORAL_UI_URL: 'https://temporal.example.com/', TEMPORAL_NAMESPACE: 'own one' },
  });
  member = await api.addUser(api.root);
});
afterAll(() => api.stop());

const hourMs = 3_600_000;
const startedAt = new Date(Math.floor(Date.now() / hourMs) * hourMs - 72 * hourMs);
const after = (hours: number) => new Date(startedAt.getTime() + hours * hourMs);

/** The life of a sandbox of a user: it runs for an hour, is paused, and ends an hour later, unless it continues. */
async function life({ ends = true } = {}): Promise<SandboxId> {
  const size = { cpu_count: 2, memory_mb: 512, storage_gb: 10, is_async: true };
  const { sandbox_id: id } = (await api.send(member, 'POST', '/v1/sandboxes', size)).body.data;
  const { life: rows } = api.commands;
  await rows.begin(id, 1);
  await api.commands.run(id, startedAt);
  await rows.pause(id, 'user_requested', after(1), true);
  if (ends) {
    await rows.beginTermination(id, 'user_requested');
    await rows.endTermination(id, 'completed', after(2), true);
  }
  return id;
}

const get = async (caller: Caller, path: string): Promise<Json> => {
  const { status, body } = await api.send(caller, 'GET', path);
  expect([path, status, body.error]).toEqual([path, 200, undefined]);
  return body.data;
};
const readCode = async (caller: Caller | null, path: string) => {
  const { status, body } = await api.send(caller, 'GET', path);
  return [status, body.code];
};

test('the events of a life are listed, newest first, with status and reason', async () => {
  const id = await life();
  const { events, pagination } = await get(member, `/v1/sandboxes/${id}/events`);
  expect(events.map(({ type, status, reason }: Json) => [type, status, reason])).toEqual([
    ['sandbox.terminated', 'terminated', 'user_requested'],
    ['sandbox.stopped', 'terminated', 'user_requested'],
    ['sandbox.paused', 'paused', 'user_requested'],
    ['sandbox.started', 'running', 'user_requested'],
    ['sandbox.created', 'created', 'user_requested'],
  ]);
  expect(events.map(({ sequence }: Json) => sequence)).toEqual([5, 4, 3, 2, 1]);
  expect(pagination).toMatchObject({ total: 5, next_cursor: null });
  const read: Json[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await get(member, `/v1/sandboxes/${id}/events?limit=2&cursor=${cursor}`);
    read.push(...page.events);
    cursor = page.pagination.next_cursor;
  }
  expect(read).toEqual(events);
  expect((await get(api.root, `/v1/sandboxes/${id}/events`)).events).toEqual(events);
});

test('what a sandbox has used has a cost at its prices, also while it lives', async () => {
  const id = await life();
  // 7200 core-seconds, 1800 GB-seconds of memory, 72000 of disk.
  const { amount, currency, ...used } = await get(member, `/v1/sandboxes/${id}/cost`);
  expect([currency, used]).toEqual([
    'USD',
    {
      ...{ sandbox_id: id, cpu_seconds: 7200, ram_gb_seconds: 1800, sandbox_storage_gb_seconds: 72_000 },
      ...{ traffic_gb: 0, cpu_seconds_used: 0, ram_gb_seconds_used: 0 },
    },
  ]);
  const session = (await get(member, '/v1/usage/sessions')).sessions.find((each: Json) => each.resource_id === id);
  expect([amount, amount > 0]).toEqual([session.final_cost, true]);

  const living = await life({ ends: false });
  const now = await get(member, `/v1/sandboxes/${living}/cost`);
  expect([now.cpu_seconds, now.sandbox_storage_gb_seconds > 71 * 36_000]).toEqual([7200, true]);
  expect(now.amount).toBeGreaterThan(amount);
  // Usage of others does not count.
  await addUsage(api.orm.em, member.accountId, '9');
  expect((await get(member, `/v1/sandboxes/${id}/cost`)).amount).toBe(amount);
});

test('a sandbox that never ran has used nothing', async () => {
  const { body } = await api.send(member, 'POST', '/v1/sandboxes', { is_async: true });
  expect(await get(member, `/v1/sandboxes/${body.data.sandbox_id}/cost`)).toMatchObject({ amount: 0, cpu_seconds: 0 });
});

test('without billing there is usage and no cost', async () => {
  const free = await startApi({ env: { PLATFORM_BILLING: 'off' } });
  const { body } = await free.send(free.root, 'POST', '/v1/sandboxes', {});
  const reply = await free.send(free.root, 'GET', `/v1/sandboxes/${body.data.sandbox_id}/cost`);
  expect(reply.body.data).toMatchObject({ currency: 'USD', amount: null, cpu_seconds: expect.any(Number) });
  await free.stop();
});

test('operators find the workflow and its page, also of a deleted sandbox', async () => {
  const id = await life();
  await api.send(member, 'DELETE', `/v1/sandboxes/${id}`);
  expect(await get(api.root, `/v1/admin/sandboxes/${id}/workflow`)).toEqual({
    workflow_id: id,
    web_ui_url: `https://temporal.example.com/namespaces/own%20one/workflows/${id}`,
  });
  const plain = await startApi();
  const { body } = await plain.send(plain.root, 'POST', '/v1/sandboxes', {});
  const reply = await plain.send(plain.root, 'GET', `/v1/admin/sandboxes/${body.data.sandbox_id}/workflow`);
  expect(reply.body.data.web_ui_url).toBeNull();
  await plain.stop();
});

test('only those who may see the sandbox see its events and its cost, and only operators its workflow', async () => {
  const id = await life();
  const [stranger, other] = [await api.addAccount(), await api.addUser(api.root)];
  for (const part of ['events', 'cost']) {
    for (const caller of [stranger, other]) {
      expect(await readCode(caller, `/v1/sandboxes/${id}/${part}`)).toEqual([404, 'not_found']);
    }
    expect(await readCode(member, `/v1/sandboxes/sbx-none/${part}`)).toEqual([404, 'not_found']);
    expect(await readCode(null, `/v1/sandboxes/${id}/${part}`)).toEqual([401, 'unauthenticated']);
  }
  expect(await readCode(member, `/v1/sandboxes/${id}/events?cursor=x`)).toEqual([400, 'invalid_pagination']);
  expect(await readCode(stranger, `/v1/admin/sandboxes/${id}/workflow`)).toEqual([403, 'admin_required']);
  expect(await readCode(api.root, '/v1/admin/sandboxes/sbx-none/workflow')).toEqual([404, 'not_found']);
});
