import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import type { AccountId } from '../../domain/ids.ts';
import { lockRow } from '../core/lock-row.ts';
import { scopeTransaction } from '../core/scope.ts';
import { Account } from './account.entity.ts';
import { lockAdmins, requireAnAdmin } from './admins.ts';
import { recordAudit } from './audit-events.ts';
import { User } from './user.entity.ts';

/** Changes the account's own settings. @returns the account after the change */
export function changeAccount(
  em: EntityManager,
  accountId: AccountId,
  change: { displayName?: string | undefined; description?: string | undefined },
): Promise<Account> {
  return scopeTransaction(em, { rows: 'account', accountId }, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const account = await tx.findOneOrFail(Account, { accountId });
    const { displayName = account.displayName, description = account.description } = change;
    const before = { display_name: account.displayName, description: account.description.slice(0, 1000) };
    const after = { display_name: displayName, description: description.slice(0, 1000) };
    await recordAudit(tx, { accountId, objectId: accountId, before, after });
    return tx.assign(account, { displayName, description });
  });
}

/**
 * Suspends an account or reopens it. Users of a suspended account can read, and change nothing.
 * @returns false when there is no such account
 * @throws {AppError} `last_admin`
 */
export function setAccountStatus(em: EntityManager, accountId: AccountId, status: Account['status']): Promise<boolean> {
  return em.fork().transactional(async (tx) => {
    if (status === 'suspended') await lockAdmins(tx);
    const account = await tx.findOne(Account, { accountId }, { lockMode: LockMode.PESSIMISTIC_WRITE });
    if (!account) return false;
    const before = account.status;
    account.status = status;
    await tx.flush();
    const admins = await tx.count(User, { accountId, role: 'admin', status: 'enabled' });
    if (status === 'suspended' && admins > 0) await requireAnAdmin(tx);
    await recordAudit(tx, { accountId, objectId: accountId, before: { status: before }, after: { status } });
    return true;
  });
}

/** The name of an account. Without one, its e-mail address. */
export async function findAccountName(em: EntityManager, accountId: AccountId): Promise<string> {
  const { displayName, email } = await em.fork().findOneOrFail(Account, { accountId });
  return displayName || email;
}

/** The address for an account's mails. */
export async function findAccountAddress(em: EntityManager, accountId: AccountId): Promise<string> {
  return (await em.fork().findOneOrFail(Account, { accountId })).email;
}
