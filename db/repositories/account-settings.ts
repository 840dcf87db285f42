import type { EntityManager } from '@mikro-orm/postgresql';
import { Account } from '../entities/account.ts';
import { lockRow } from './lock-row.ts';
import { scopeTransaction } from './scope.ts';

/** Changes what an account says of itself. @returns the account as it is now */
export function changeAccount(
  em: EntityManager,
  accountId: string,
  change: { displayName?: string | undefined; description?: string | undefined },
): Promise<Account> {
  return scopeTransaction(em, { rows: 'account', accountId }, async (tx) => {
    await lockRow(tx, 'accounts', accountId);
    const account = await tx.findOneOrFail(Account, { accountId });
    const { displayName = account.displayName, description = account.description } = change;
    return tx.assign(account, { displayName, description });
  });
}
