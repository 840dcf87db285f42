import { OutboxEntry } from '../../../db/core/outbox-entry.entity.ts';
import type { Json } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

const deadLetters = '/v1/admin/dead-letters';
let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function addEntry(fields: Partial<OutboxEntry> = {}): Promise<string> {
  const em = api.orm.em.fork();
  const entry = em.create(OutboxEntry, {
    ...{ workflowType: 'passwordReset', workflowId: 'usr-a/password-reset', input: { token: 'hidden' }, attempts: 12 },
    ...{ refusals: 10, lastError: 'refused', deadAt: new Date(), ...fields },
  });
  await em.flush();
  return entry.id;
}

const list = async (): Promise<Json[]> => (await api.send(api.root, 'GET', deadLetters)).body.data.dead_letters;
const retry = (id: string, by: Caller | null = api.root) => api.send(by, 'POST', `${deadLetters}/${id}/retry`);
const readCode = ({ status, body }: { status: number; body: Json }) => [status, body.code];

test('operators see the entries that were given up, without their input, and retry one', async () => {
  const start = await addEntry();
  const signal = await addEntry({
    signal: 'pauseRequested',
    workflowType: 'sandbox',
    workflowId: 'sbx-a',
    lastError: null,
  });
  await addEntry({ deadAt: null, workflowId: 'sbx-waiting' });
  const shown = await list();
  expect(shown).toEqual([
    {
      ...{ id: signal, workflow_type: 'sandbox', workflow_id: 'sbx-a', signal: 'pauseRequested', attempts: 12 },
      ...{ last_error: null, created_at: expect.any(String), dead_at: expect.any(String) },
    },
    expect.objectContaining({ id: start, signal: null, last_error: 'refused' }),
  ]);
  expect((await retry(start)).status).toBe(200);
  expect((await list()).map(({ id }) => id)).toEqual([signal]);
  const entry = await api.orm.em.fork().findOneOrFail(OutboxEntry, { id: start });
  expect(entry).toMatchObject({ deadAt: null, refusals: 0, attempts: 0 });
  expect(readCode(await retry(start))).toEqual([404, 'not_found']);
  const { body } = await api.send(api.root, 'GET', '/v1/audit-events?account_id=all&action=retryDeadLetter');
  expect(body.data.events).toMatchObject([
    { actor_user_id: api.root.userId, account_id: null, object_id: start, after: { retried: 1 } },
  ]);
});

test('only operators may do this, with the id of a dead letter', async () => {
  const id = await addEntry();
  const owner = await api.addAccount();
  expect(readCode(await retry(id, owner))).toEqual([403, 'admin_required']);
  expect(readCode(await retry(id, null))).toEqual([401, 'unauthenticated']);
  expect(readCode(await api.send(owner, 'GET', deadLetters))).toEqual([403, 'admin_required']);
  for (const wrong of ['0', 'x', '1e3', '9'.repeat(19), '-1']) {
    expect([wrong, ...readCode(await retry(wrong))]).toEqual([wrong, 404, 'not_found']);
  }
  expect((await list()).map((each) => each.id)).toContain(id);
});
