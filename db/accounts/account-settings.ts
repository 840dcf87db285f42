import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId } from '../../domain/ids.ts';
import { lockRow } from '../core/lock-row.ts';
import { scopeTransaction } from '../core/scope.ts';
import { Account } from './account.entity.ts';
import { recordAudit } from './audit-events.ts';

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

/** The name of an account. Without one, its e-mail address. */
export async function findAccountName(em: EntityManager, accountId: AccountId): Promise<string> {
  const { displayName, email } = await em.fork().findOneOrFail(Account, { accountId });
  return displayName || email;
}

/** The address for an account's mails. */
export async function findAccountAddress(em: EntityManager, accountId: AccountId): Promise<string> {
  return (await em.fork().findOneOrFail(Account, { accountId })).email;
}
