import type { EntityManager } from '@mikro-orm/postgresql';
import { type AccountId, type IdKind, isId } from '../../domain/ids.ts';
import type { Plan } from '../../domain/plans.ts';
import { query } from '../query.ts';

/** An account that an admin works on. */
export interface OwningAccount {
  accountId: AccountId;
  planName: string;
  /** The plan as it was bought. Null: it has no subscription yet. */
  boughtPlan: Plan | null;
}

/** Where objects that belong to an account are kept, and the column of their id. */
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

/** Objects that keep the id of the payment processor, by its prefix. */
const processorTables: Readonly<Record<string, readonly [table: string, key: string]>> = {
  pm: ['payment_methods', 'payment_method_id'],
  pi: ['payment_intents', 'payment_intent_id'],
};

/** The account that an object belongs to, by its id. Null: there is none. */
export async function findOwningAccount(em: EntityManager, id: string): Promise<OwningAccount | null> {
  const kind = (Object.keys(tables) as IdKind[]).find((each) => isId(each, id));
  const [table, key] = (kind && tables[kind]) ?? processorTables[id.split('_', 1)[0]!] ?? [];
  if (!table) return null;
  const [row] = await query<{ account_id: AccountId; plan_name: string; plan: Plan | null }>(
    em.fork(),
    `select a.account_id, a.plan_name, b.plan from ${table} o join accounts a using (account_id)
       left join subscriptions b using (account_id) where o.${key} = ?`,
    [id],
  );
  return row ? { accountId: row.account_id, planName: row.plan_name, boughtPlan: row.plan } : null;
}
