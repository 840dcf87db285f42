import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId } from '../../domain/ids.ts';
import { concurrentStatuses } from '../../domain/sandboxes/state.ts';
import { containing, type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import type { SqlCondition } from '../core/scope.ts';
import { Account } from './account.entity.ts';

/** An account in the form for operators. */
export interface AccountView {
  account: Account;
  userCount: number;
  /** Sandboxes that count against the plan. Paused ones do not. */
  activeSandboxCount: number;
}

type AccountRow = EntityRow<Account> & { user_count: number; active_sandbox_count: number };

const listed: ListedTable = {
  table: 'accounts',
  alias: 'a',
  key: ['account_id'],
  beside: `(select count(*)::int from users u where u.account_id = a.account_id) as user_count,
           (select count(*)::int from sandboxes s where s.account_id = a.account_id
               and s.status in (${concurrentStatuses.map((status) => `'${status}'`).join(', ')})) as active_sandbox_count`,
};

/**
 * A page of the accounts of the platform.
 * @param filter.search part of the e-mail or of the name, in any case
 */
export async function listAccounts(
  em: EntityManager,
  filter: { search?: string | undefined; status?: Account['status'] | undefined },
  listing: Listing,
): Promise<ListPage & { accounts: AccountView[] }> {
  const conditions: SqlCondition[] = [{ sql: 'true', values: [] }];
  if (filter.search) conditions.push(containing(['a.email', 'a.display_name'], filter.search));
  if (filter.status) conditions.push({ sql: 'a.status = ?', values: [filter.status] });
  const { rows, ...page } = await readPage<AccountRow>(em.fork(), listed, conditions, listing);
  return { accounts: rows.map((row) => toView(em, row)), ...page };
}

/** Null: there is no such account. */
export async function findAccountView(em: EntityManager, accountId: AccountId): Promise<AccountView | null> {
  const row = await readOne<AccountRow>(em.fork(), listed, [{ sql: 'a.account_id = ?', values: [accountId] }]);
  return row && toView(em, row);
}

function toView(em: EntityManager, { user_count, active_sandbox_count, ...row }: AccountRow): AccountView {
  return { account: readRow(em, Account, row), userCount: user_count, activeSandboxCount: active_sandbox_count };
}
