import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { constraintErrors } from '../../db/core/constraint-errors.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 2);
});
afterAll(async () => {
  await orm.close();
  await database.drop();
});

/**
 * Unique indexes that no request can violate: of random ids and secrets, and of values that are written under a lock.
 */
const neverViolated = [
  'api_keys_secret_hash_key',
  'budgets_key',
  'email_changes_current_token_hash_key',
  'email_changes_new_token_hash_key',
  'email_changes_pending',
  'events_object_id_sequence_key',
  'invoices_change_id_key',
  'invoices_period',
  'ledger_transactions_reference_key',
  'ledger_transactions_transaction_id_account_id_currency_key',
  'payment_customers_customer_id_key',
  'payment_intents_invoice_id_key',
  'payment_methods_default',
  'payment_methods_payment_method_id_key',
  'payment_refunds_processor_refund_id_key',
  'plan_changes_running',
  'projects_default',
  'quota_allocations_active',
  'quota_allocations_active_account',
  'quota_requests_pending',
  'secret_keys_fingerprint_key',
  'subscriptions_account_id_key',
];

test('each unique index has the error of a caller who violates it, or cannot be violated by one', async () => {
  const rows = (await orm.em.fork().execute(
    `select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
       join pg_class t on t.oid = i.indrelid join pg_namespace n on n.oid = t.relnamespace
      where i.indisunique and not i.indisprimary and n.nspname = 'public' and not t.relispartition
        and t.relname <> 'platform_migrations'`,
  )) as { name: string }[];
  const unique = rows.map(({ name }) => name).sort();
  const mapped = Object.keys(constraintErrors).filter((name) => !name.endsWith('_fkey'));
  expect(unique).toEqual([...mapped, ...neverViolated].sort());
});

test('each foreign key that has an error is there', async () => {
  const rows = (await orm.em.fork().execute("select conname as name from pg_constraint where contype = 'f'")) as {
    name: string;
  }[];
  const known = rows.map(({ name }) => name);
  const mapped = Object.keys(constraintErrors).filter((name) => name.endsWith('_fkey'));
  expect(mapped.length).toBeGreaterThan(0);
  expect(known).toEqual(expect.arrayContaining(mapped));
});
