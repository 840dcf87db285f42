import type { EntityManager } from '@mikro-orm/postgresql';
import { grantEntries, type LedgerEntries, type LedgerKind, refundEntries } from '../../domain/billing/ledger.ts';
import { type Amount, compare, decimal, inUnits, isZero } from '../../domain/billing/money.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { recordAudit } from '../accounts/audit-events.ts';
import { lockRow } from '../core/lock-row.ts';
import { newId } from '../core/new-id.ts';
import { type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type Scope, withinScope } from '../core/scope.ts';
import { signalPaymentPossible } from './billing-signals.ts';

export interface LedgerPosting {
  /** The default is a new id. */
  transactionId?: string;
  accountId: AccountId;
  kind: LedgerKind;
  currency: string;
  description: string;
  /**
   * The subject of the transaction, such as a charge, which is booked only once. Null: any number of transactions is
   * allowed.
   */
  reference: string | null;
  entries: LedgerEntries;
}

/**
 * Books a transaction, in the database transaction of `tx` that makes it true. On commit, the database refuses entries
 * that do not sum to zero.
 * @returns false when the reference is already booked, and nothing was added
 */
export async function post(tx: EntityManager, posting: LedgerPosting): Promise<boolean> {
  const { accountId, kind, currency, description, reference } = posting;
  const entries = posting.entries.filter(({ amount }) => !isZero(amount));
  if (entries.length === 0) return true;
  const transactionId = posting.transactionId ?? newId('ledgerTransaction');
  const added = await query(
    tx,
    `insert into ledger_transactions (transaction_id, account_id, kind, currency, description, reference)
     values (?, ?, ?, ?, ?, ?) on conflict (reference) do nothing returning 1`,
    [transactionId, accountId, kind, currency, description, reference],
  );
  if (added.length === 0) return false;
  for (const { ledgerAccount, amount } of entries) {
    await query(
      tx,
      `insert into ledger_entries (transaction_id, account_id, currency, ledger_account, amount)
       values (?, ?, ?, ?, ?::numeric)`,
      [transactionId, accountId, currency, ledgerAccount, amount],
    );
  }
  return true;
}

/** The credit of an account. If a decision depends on it, lock the account's row first. */
export async function readBalance(em: EntityManager, accountId: AccountId, currency: string): Promise<Amount> {
  const [row] = await query<{ balance: string }>(
    em,
    `select (-coalesce(sum(amount), 0))::text as balance from ledger_entries
      where account_id = ? and currency = ? and ledger_account = 'balance'`,
    [accountId, currency],
  );
  return inUnits(decimal(row!.balance), currency);
}

export interface CreditChange {
  transactionId: string;
  accountId: AccountId;
  action: 'grant' | 'refund';
  amount: Amount;
  currency: string;
  description: string;
}

/**
 * Grants credit to an account, or takes back unused credit that is paid out outside the platform.
 * @throws {AppError} `not_found` when there is no such account; `balance_too_low`
 */
export async function changeCredit(em: EntityManager, change: CreditChange): Promise<void> {
  const { transactionId, accountId, action, amount, currency, description } = change;
  await em.fork().transactional(async (tx) => {
    if (!(await lockRow(tx, 'accounts', accountId))) throw notFound('Account');
    const before = await readBalance(tx, accountId, currency);
    if (action === 'refund' && compare(before, amount) < 0) {
      throw new AppError('balance_too_low', `The account has a balance of ${before} ${currency}`);
    }
    await post(tx, {
      ...{ transactionId, accountId, currency, description, reference: null },
      kind: action === 'grant' ? 'credit_granted' : 'credit_refunded',
      entries: action === 'grant' ? grantEntries(amount, currency) : refundEntries(amount, currency),
    });
    if (action === 'grant') await signalPaymentPossible(tx, accountId);
    const after = await readBalance(tx, accountId, currency);
    const [then, now] = [before, after].map((balance) => ({ balance: `${balance} ${currency}` }));
    await recordAudit(tx, { accountId, objectId: transactionId, before: then!, after: now! });
  });
}

/** A transaction in the form for its customer: its effect on the balance. */
export interface BalanceChange {
  transactionId: string;
  accountId: AccountId;
  kind: LedgerKind;
  description: string;
  /** Positive: credit was added. */
  amount: Amount;
  currency: string;
  createdAt: Date;
}

/** Transactions that change the balance, as a table. */
const listed: ListedTable = {
  table: `(select t.*, (-e.amount)::text as amount from ledger_transactions t
             join ledger_entries e on e.transaction_id = t.transaction_id and e.ledger_account = 'balance')`,
  alias: 'c',
  key: ['transaction_id'],
};

export async function listBalanceChanges(
  em: EntityManager,
  scope: Scope,
  listing: Listing,
): Promise<ListPage & { changes: BalanceChange[] }> {
  const { rows, ...page } = await readPage<BalanceRow>(em, listed, [withinScope(scope, 'c')], listing);
  return { changes: rows.map(toBalanceChange), ...page };
}

export async function findBalanceChange(em: EntityManager, transactionId: string): Promise<BalanceChange | null> {
  const row = await readOne<BalanceRow>(em, listed, [{ sql: 'c.transaction_id = ?', values: [transactionId] }]);
  return row && toBalanceChange(row);
}

interface BalanceRow {
  transaction_id: string;
  account_id: AccountId;
  kind: LedgerKind;
  currency: string;
  description: string;
  reference: string | null;
  created_at: string;
  amount: string;
}

function toBalanceChange(row: BalanceRow): BalanceChange {
  return {
    transactionId: row.transaction_id,
    accountId: row.account_id,
    kind: row.kind,
    description: row.description,
    amount: inUnits(decimal(row.amount), row.currency),
    currency: row.currency,
    createdAt: new Date(row.created_at),
  };
}
