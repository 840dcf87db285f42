import { beginReconciliation, compareLedger, endReconciliation } from '../../../db/billing/reconciliations.ts';
import { newId } from '../../../db/core/new-id.ts';
import { startApi, type TestApi } from '../test-api.ts';

const url = '/v1/admin/reconciliations/latest';
let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test('operators see the differences of the last ended comparison', async () => {
  const none = await api.send(api.root, 'GET', url);
  expect([none.status, none.body.code]).toEqual([404, 'not_found']);

  const invoiceId = newId('invoice');
  const em = api.orm.em.fork();
  await em.transactional(async (tx) => {
    await tx.execute('set local session_replication_role = replica');
    await tx.execute(
      `insert into invoices (invoice_id, account_id, kind, status, period_start, period_end, plan, currency, tax_rate, subtotal,
         tax_amount, total_amount, issued_at)
       values (?, ?, 'period', 'open', now(), now() + interval '1 day', '{}', 'USD', 0, 5, 0, 5, now())`,
      [invoiceId, api.root.accountId],
    );
  });
  await beginReconciliation(api.orm.em, 'rec-1', false);
  await compareLedger(api.orm.em, 'rec-1');
  await endReconciliation(api.orm.em, 'rec-1');
  // In progress.
  await beginReconciliation(api.orm.em, 'rec-2', false);
  const { status, body } = await api.send(api.root, 'GET', url);
  expect([status, body.data]).toEqual([
    200,
    expect.objectContaining({ reconciliation_id: 'rec-1', reads_processor: false, ended_at: expect.any(String) }),
  ]);
  const { differences, difference_count: count } = body.data;
  expect(count).toBe(differences.length);
  expect(differences).toContainEqual({
    ...{ kind: 'invoice_not_booked', object_id: invoiceId, account_id: api.root.accountId },
    ...{ expected: expect.stringContaining('5'), found: 'not booked' },
  });
});

test('at most a thousand differences are shown, and all are counted', async () => {
  const em = api.orm.em.fork();
  await em.execute(
    `insert into reconciliation_differences (reconciliation_id, kind, object_id, account_id, expected, found)
     select 'rec-1', 'charge_missing', 'pi_' || n, null, '1', 'none' from generate_series(1, 1000) n`,
  );
  const { body } = await api.send(api.root, 'GET', url);
  expect([body.data.differences.length, body.data.difference_count > 1000]).toEqual([1000, true]);
});

test('only operators may see it', async () => {
  const refused = await api.send(await api.addAccount(), 'GET', url);
  expect([refused.status, refused.body.code]).toEqual([403, 'admin_required']);
  expect((await api.send(null, 'GET', url)).status).toBe(401);
});
