import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from '../../db/core/query.ts';
import type { LedgerAccount } from '../../domain/billing/ledger.ts';
import type { Amount } from '../../domain/billing/money.ts';
import type { AccountId } from '../../domain/ids.ts';

/** The sum of each ledger account of a customer, as strings. */
export async function ledgerSums(
  em: EntityManager,
  accountId: AccountId,
): Promise<{ currency: string; ledgerAccount: LedgerAccount; sum: Amount }[]> {
  return await query<{ currency: string; ledgerAccount: LedgerAccount; sum: string }>(
    em,
    `select currency, ledger_account as "ledgerAccount", sum(amount)::text as sum from ledger_entries
      where account_id = ? group by 1, 2 order by 1, 2`,
    [accountId],
  );
}
