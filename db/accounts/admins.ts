import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import { query } from '../core/query.ts';

/** One lock for all accounts, so that changes that may remove the last admin run one after the other. */
const adminsLock = 7_403_113;

/**
 * Waits for other changes that may remove the last admin. Call this before other rows are locked.
 * @param tx a transaction
 */
export async function lockAdmins(tx: EntityManager): Promise<void> {
  await query(tx, 'select pg_advisory_xact_lock(?)', [adminsLock]);
}

/**
 * Ensures that an operator of the platform is left: an enabled admin of an account that is not suspended. Call this
 * after the change. If it throws, the change is rolled back.
 * @throws {AppError} `last_admin`
 */
export async function requireAnAdmin(tx: EntityManager): Promise<void> {
  const [left] = await query<{ found: boolean }>(
    tx,
    `select exists (select from users u join accounts a using (account_id)
       where u.role = 'admin' and u.status = 'enabled' and a.status = 'active') as found`,
  );
  if (!left!.found) throw new AppError('last_admin', 'The last enabled admin of the platform must stay');
}
