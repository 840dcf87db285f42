import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from './query.ts';

const statements = {
  accounts: 'select 1 from accounts where account_id = ? for no key update',
  users: 'select 1 from users where user_id = ? for no key update',
  hosts: 'select 1 from hosts where host_id = ? for no key update',
} as const;

/**
 * Locks a row until the transaction ends, so that transactions that lock it run one after the other. Rows that refer to
 * it can still be inserted meanwhile (`for no key update`). With `for update` there would be a deadlock of two
 * transactions: one locks the account and inserts a row of the user, the other locks the user and inserts a row of the
 * account.
 * @returns whether the row exists
 */
export async function lockRow(tx: EntityManager, table: keyof typeof statements, id: string): Promise<boolean> {
  const found = await query(tx, statements[table], [id]);
  return found.length > 0;
}
