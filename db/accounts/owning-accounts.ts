import type { EntityManager } from '@mikro-orm/postgresql';
import type { Plan } from '../../domain/billing/plans.ts';
import { type AccountId, type IdKind, isId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/** An account that an admin works on. */
export interface OwningAccount {
  accountId: AccountId;
  planName: string;
  /** The plan with the terms of its purchase. Null: the account has no subscription yet. */
  boughtPlan: Plan | null;
}

/** The tables of objects that belong to an account, and the columns of their ids. */
const tables: { [kind in IdKind]?: readonly [table: string, key: string] } = {
  account: ['accounts', 'account_id'],
  user: ['users', 'user_id'],
  project: ['projects', 'project_id'],
  apiKey: ['api_keys', 'key_id'],
  template: ['templates', 'template_id'],
  sandbox: ['sandboxes', 'sandbox_id'],
  quotaAllocation: ['quota_allocations', 'allocation_id'],
  importJob: ['import_jobs', 'job_id'],
  quotaRequest: ['quota_requests', 'request_id'],
  webhookEndpoint: ['webhook_endpoints', 'endpoint_id'],
  paymentMethod: ['payment_methods', 'id'],
  invoice: ['invoices', 'invoice_id'],
};

/** Objects with an id of the payment processor, by its prefix. This is a map because callers send any prefix. */
const processorTables = new Map<string, readonly [table: string, key: string]>([
  ['pm', ['payment_methods', 'payment_method_id']],
  ['pi', ['payment_intents', 'payment_intent_id']],
]);

/** The account of an object, by the object's id. Null: there is none. */
export async function findOwningAccount(em: EntityManager, id: string): Promise<OwningAccount | null> {
  const kind = (Object.keys(tables) as IdKind[]).find((each) => isId(each, id));
  const [table, key] = (kind && tables[kind]) ?? processorTables.get(id.split('_', 1)[0]!) ?? [];
  if (!table) return null;
  const [row] = await query<{ account_id: AccountId; plan_name: string; plan: Plan | null }>(
    em.fork(),
    `select a.account_id, a.plan_name, b.plan from ${table} o join accounts a using (account_id)
       left join subscriptions b using (account_id) where o.${key} = ?`,
    [id],
  );
  return row ? { accountId: row.account_id, planName: row.plan_name, boughtPlan: row.plan } : null;
}
