import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from './query.ts';

const keys = { accounts: 'account_id', users: 'user_id', hosts: 'host_id' } as const;

/**
 * Locks a row until the transaction ends, so that transactions that lock it run one after the other. Rows that refer to
 * it can still be inserted meanwhile (`for no key update`). With `for update` there would be a deadlock of two
 * transactions: one locks the account and inserts a row of the user, the other locks the user and inserts a row of the
 * account.
 * @returns whether the row exists
 */
export async function lockRow(tx: EntityManager, table: keyof typeof keys, id: string): Promise<boolean> {
  const found = await query(tx, `select 1 from ${table} where ${keys[table]} = ? for no key update`, [id]);
  return found.length > 0;
}
