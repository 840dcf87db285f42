import type { EntityManager } from '@mikro-orm/postgresql';
import {
  type ComparedCharge,
  comparedDays,
  type Difference,
  type DifferenceKind,
  describeCharge,
  isSameCharge,
  settledAfterMinutes,
} from '../../domain/billing/reconciliation.ts';
import type { AccountId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/** A comparison of ledger, charges and processor. */
export interface Reconciliation {
  reconciliationId: string;
  startedAt: Date;
  /** Null: it is in progress, or was cancelled. */
  endedAt: Date | null;
  readsProcessor: boolean;
  chargesFrom: Date;
  chargesUntil: Date;
}

/** The maximum number of differences of one kind that are kept of a comparison. */
const maxOfOneKind = 1000;
const keptDays = 400;
/** For how long refused usage is shown to operators. */
const refusedUsageShown = "interval '7 days'";

/** Begins a comparison, and deletes comparisons and refused usage that are older than a year. Repeating it has no effect. */
export async function beginReconciliation(
  em: EntityManager,
  reconciliationId: string,
  readsProcessor: boolean,
): Promise<Reconciliation> {
  await query(
    em.fork(),
    `insert into reconciliations (reconciliation_id, reads_processor, charges_from, charges_until)
     values (?, ?, now() - interval '${comparedDays} days', now() - interval '${settledAfterMinutes} minutes')
     on conflict do nothing`,
    [reconciliationId, readsProcessor],
  );
  await query(em.fork(), `delete from reconciliations where started_at < now() - interval '${keptDays} days'`);
  await query(em.fork(), `delete from usage_refusals where refused_at < now() - interval '${keptDays} days'`);
  const [row] = await query<ReconciliationRow>(em.fork(), 'select * from reconciliations where reconciliation_id = ?', [
    reconciliationId,
  ]);
  return toReconciliation(row!);
}

/**
 * Checks of the ledger against invoices, charges and refunds, and of its balance. Each query selects the columns of a
 * difference.
 */
const ledgerComparisons = [
  {
    kind: 'ledger_not_balanced',
    sql: `select t.transaction_id as object_id, t.account_id, '0' as expected, coalesce(sum(e.amount)::text, 'no entries') as found
            from ledger_transactions t left join ledger_entries e using (transaction_id)
           group by t.transaction_id, t.account_id having coalesce(sum(e.amount), 1) <> 0`,
  },
  {
    kind: 'invoice_not_booked',
    sql: `select i.invoice_id as object_id, i.account_id,
                 concat_ws(', ', i.total_amount, i.subtotal, i.tax_amount, i.currency) as expected,
                 coalesce(concat_ws(', ', b.receivable, -b.revenue, -b.tax, b.currency) || ' of ' || b.account_id, 'not booked') as found
            from invoices i
            left join (select t.reference, t.account_id, t.currency,
                              coalesce(sum(e.amount) filter (where e.ledger_account = 'receivable'), 0) as receivable,
                              coalesce(sum(e.amount) filter (where e.ledger_account = 'revenue'), 0) as revenue,
                              coalesce(sum(e.amount) filter (where e.ledger_account = 'tax'), 0) as tax
                         from ledger_transactions t left join ledger_entries e using (transaction_id)
                        where t.kind = 'invoice_issued' group by t.transaction_id) b on b.reference = 'invoice ' || i.invoice_id
           where i.status <> 'draft'
             -- Nothing is booked for an invoice of nothing.
             and not (i.subtotal = 0 and i.tax_amount = 0 and b.reference is null)
             and (b.receivable, -b.revenue, -b.tax, b.currency, b.account_id)
                 is distinct from (i.total_amount, i.subtotal, i.tax_amount, i.currency, i.account_id)`,
  },
  {
    kind: 'booking_without_invoice',
    sql: `select t.transaction_id as object_id, t.account_id, coalesce(i.status, 'unknown') as expected, t.reference as found
            from ledger_transactions t left join invoices i on t.reference = 'invoice ' || i.invoice_id
           where t.kind = 'invoice_issued' and (i.status is null or i.status = 'draft')`,
  },
  {
    kind: 'invoice_lines_differ',
    sql: `select i.invoice_id as object_id, i.account_id, i.subtotal::text as expected, coalesce(sum(l.amount), 0)::text as found
            from invoices i left join invoice_lines l using (invoice_id)
           where i.status <> 'draft' group by i.invoice_id having coalesce(sum(l.amount), 0) <> i.subtotal`,
  },
  {
    kind: 'receivable_differs',
    sql: `select coalesce(i.account_id, e.account_id) || ' ' || coalesce(i.currency, e.currency) as object_id,
                 coalesce(i.account_id, e.account_id) as account_id, coalesce(i.owed, 0)::text as expected,
                 coalesce(e.receivable, 0)::text as found
            from (select account_id, currency, sum(total_amount - paid_from_balance) as owed from invoices
                   where status in ('open', 'past_due') group by 1, 2) i
            full join (select account_id, currency, sum(amount) as receivable from ledger_entries
                        where ledger_account = 'receivable' group by 1, 2) e
              on e.account_id = i.account_id and e.currency = i.currency
           where coalesce(i.owed, 0) <> coalesce(e.receivable, 0)`,
  },
  {
    kind: 'charge_not_booked',
    sql: `select i.payment_intent_id as object_id, i.account_id, i.amount::text || ' ' || i.currency as expected,
                 coalesce(b.cash::text || ' ' || b.currency || ' of ' || b.account_id, 'not booked') as found
            from payment_intents i
            left join (select t.reference, t.account_id, t.currency, e.amount as cash from ledger_transactions t
                         join ledger_entries e on e.transaction_id = t.transaction_id and e.ledger_account = 'cash'
                        where t.kind = 'payment_received') b on b.reference = 'charge ' || i.payment_intent_id
           where i.status = 'succeeded'
             and (b.cash, b.currency, b.account_id) is distinct from (i.amount, i.currency, i.account_id)`,
  },
  {
    kind: 'booking_without_charge',
    sql: `select t.transaction_id as object_id, t.account_id, coalesce(i.status, 'unknown') as expected, t.reference as found
            from ledger_transactions t
            left join payment_intents i on t.reference = 'charge ' || i.payment_intent_id
           where t.kind = 'payment_received' and t.reference like 'charge %' and i.status is distinct from 'succeeded'`,
  },
  {
    kind: 'refund_not_booked',
    sql: `select coalesce(i.payment_intent_id, b.payment_intent_id) as object_id, coalesce(i.account_id, b.account_id) as account_id,
                 coalesce(i.amount_refunded, 0)::text as expected, coalesce(b.refunded, 0)::text as found
            from (select * from payment_intents where amount_refunded > 0) i
            full join (select split_part(t.reference, ' ', 2) as payment_intent_id, min(t.account_id) as account_id,
                              -sum(e.amount) as refunded
                         from ledger_transactions t
                         join ledger_entries e on e.transaction_id = t.transaction_id and e.ledger_account = 'cash'
                        where t.kind = 'payment_refunded' and t.reference like 'refund %' group by 1) b using (payment_intent_id)
           where i.amount_refunded is distinct from b.refunded`,
  },
  {
    kind: 'usage_refused',
    sql: `select concat_ws(' ', resource_id, usage_type, to_char(period_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) as object_id,
                 account_id, 'at most ' || trim_scale(most) as expected, amount::text as found
            from usage_refusals where refused_at > now() - ${refusedUsageShown} order by refused_at desc`,
  },
] as const satisfies readonly { kind: DifferenceKind; sql: string }[];

/** Compares the ledger with itself, with our invoices and with our charges. @returns the number of differences */
export async function compareLedger(em: EntityManager, reconciliationId: string): Promise<number> {
  let differences = 0;
  for (const { kind, sql } of ledgerComparisons) {
    const rows = await query(
      em.fork(),
      `insert into reconciliation_differences (reconciliation_id, kind, object_id, account_id, expected, found)
       select ?, ?, object_id, account_id, expected, found from (${sql} limit ${maxOfOneKind}) compared
       on conflict (reconciliation_id, kind, object_id) do update set expected = excluded.expected, found = excluded.found
       returning 1`,
      [reconciliationId, kind],
    );
    differences += rows.length;
  }
  return differences;
}

/** A charge at the processor. */
export interface ProcessorsCharge extends ComparedCharge {
  customerId: string | null;
}

/** Compares charges at the processor with ours. Charges of customers that are not ours are ignored. */
export async function compareCharges(
  em: EntityManager,
  reconciliationId: string,
  charges: readonly ProcessorsCharge[],
): Promise<void> {
  if (charges.length === 0) return;
  await em.fork().transactional(async (tx) => {
    const ids = JSON.stringify(charges.map(({ paymentIntentId }) => paymentIntentId));
    await query(
      tx,
      `insert into reconciled_charges (reconciliation_id, payment_intent_id)
       select ?, value from jsonb_array_elements_text(?::jsonb) on conflict do nothing`,
      [reconciliationId, ids],
    );
    const customers = JSON.stringify(charges.flatMap(({ customerId }) => customerId ?? []));
    const accounts = new Map(
      (
        await query<{ customer_id: string; account_id: AccountId }>(
          tx,
          `select customer_id, account_id from payment_customers
            where customer_id in (select value from jsonb_array_elements_text(?::jsonb))`,
          [customers],
        )
      ).map((row) => [row.customer_id, row.account_id]),
    );
    const ours = await readCharges(tx, ids);
    for (const theirs of charges) {
      const difference = findDifference(ours.get(theirs.paymentIntentId), theirs, accounts);
      if (difference) await keepDifference(tx, reconciliationId, difference);
    }
  });
}

function findDifference(
  ours: (ComparedCharge & { accountId: AccountId }) | undefined,
  theirs: ProcessorsCharge,
  accounts: ReadonlyMap<string, AccountId>,
): Difference | null {
  const { paymentIntentId: objectId, customerId } = theirs;
  const customersAccount = (customerId !== null && accounts.get(customerId)) || null;
  const found = describeCharge(theirs);
  if (!ours) {
    const isOurs = customersAccount !== null;
    return isOurs ? { kind: 'charge_unknown', objectId, accountId: customersAccount, expected: 'none', found } : null;
  }
  const { accountId } = ours;
  const expected = describeCharge(ours);
  if (customersAccount !== accountId) {
    const whose = `${found}, of ${customersAccount ?? `the unknown customer ${customerId}`}`;
    return { kind: 'charge_differs', objectId, accountId, expected: `${expected}, of ${accountId}`, found: whose };
  }
  return isSameCharge(ours, theirs) ? null : { kind: 'charge_differs', objectId, accountId, expected, found };
}

async function readCharges(
  tx: EntityManager,
  ids: string,
): Promise<Map<string, ComparedCharge & { accountId: AccountId }>> {
  const rows = await query<{
    payment_intent_id: string;
    account_id: AccountId;
    status: string;
    amount: string;
    currency: string;
    amount_refunded: string;
  }>(
    tx,
    `select payment_intent_id, account_id, status, amount::text, currency, amount_refunded::text from payment_intents
      where payment_intent_id in (select value from jsonb_array_elements_text(?::jsonb))`,
    [ids],
  );
  return new Map(
    rows.map(
      ({ payment_intent_id: paymentIntentId, account_id: accountId, amount_refunded: amountRefunded, ...row }) => [
        paymentIntentId,
        { paymentIntentId, accountId, amountRefunded, ...row },
      ],
    ),
  );
}

async function keepDifference(tx: EntityManager, reconciliationId: string, difference: Difference): Promise<void> {
  const { kind, objectId, accountId, expected, found } = difference;
  await query(
    tx,
    `insert into reconciliation_differences (reconciliation_id, kind, object_id, account_id, expected, found)
     select ?, ?, ?, ?, ?, ?
      where (select count(*) from reconciliation_differences where reconciliation_id = ? and kind = ?) < ${maxOfOneKind}
     on conflict (reconciliation_id, kind, object_id) do update set expected = excluded.expected, found = excluded.found`,
    [reconciliationId, kind, objectId, accountId, expected, found, reconciliationId, kind],
  );
}

/**
 * Ends a comparison. If the processor was read, our charges in the compared time that it did not list are missing
 * there. An hour at each end is left out, because the clocks may differ.
 * @returns the number of differences of each kind
 */
export async function endReconciliation(
  em: EntityManager,
  reconciliationId: string,
): Promise<{ [kind in DifferenceKind]?: number }> {
  return em.fork().transactional(async (tx) => {
    await query(
      tx,
      `insert into reconciliation_differences (reconciliation_id, kind, object_id, account_id, expected, found)
       select r.reconciliation_id, 'charge_missing', i.payment_intent_id, i.account_id,
              i.status || ', ' || i.amount::text || ' ' || i.currency, 'none'
         from reconciliations r
         join payment_intents i on i.created_at between r.charges_from + interval '1 hour' and r.charges_until - interval '1 hour'
        where r.reconciliation_id = ? and r.reads_processor and r.ended_at is null
          and not exists (select from reconciled_charges c where c.reconciliation_id = r.reconciliation_id
                                                             and c.payment_intent_id = i.payment_intent_id)
        limit ${maxOfOneKind} on conflict do nothing`,
      [reconciliationId],
    );
    await query(tx, 'update reconciliations set ended_at = coalesce(ended_at, now()) where reconciliation_id = ?', [
      reconciliationId,
    ]);
    await query(tx, 'delete from reconciled_charges where reconciliation_id = ?', [reconciliationId]);
    const counts = await query<{ kind: DifferenceKind; n: number }>(
      tx,
      'select kind, count(*)::int as n from reconciliation_differences where reconciliation_id = ? group by 1 order by 1',
      [reconciliationId],
    );
    return Object.fromEntries(counts.map(({ kind, n }) => [kind, n]));
  });
}

/** The newest ended comparison, with its differences. Null: there was none. */
export async function readLastReconciliation(
  em: EntityManager,
): Promise<(Reconciliation & { differences: Difference[] }) | null> {
  const fork = em.fork();
  const [row] = await query<ReconciliationRow>(
    fork,
    'select * from reconciliations where ended_at is not null order by started_at desc limit 1',
  );
  if (!row) return null;
  const differences = await query<{
    kind: DifferenceKind;
    object_id: string;
    account_id: AccountId | null;
    expected: string;
    found: string;
  }>(
    fork,
    `select kind, object_id, account_id, expected, found from reconciliation_differences
      where reconciliation_id = ? order by kind, object_id`,
    [row.reconciliation_id],
  );
  return {
    ...toReconciliation(row),
    differences: differences.map(({ kind, object_id: objectId, account_id: accountId, expected, found }) => ({
      ...{ kind, objectId, accountId, expected, found },
    })),
  };
}

/** For metrics: the number of usage events that were refused in the last days. */
export async function countRefusedUsage(em: EntityManager): Promise<number> {
  const [row] = await query<{ count: number }>(
    em.fork(),
    `select count(*)::int as count from usage_refusals where refused_at > now() - ${refusedUsageShown}`,
  );
  return row!.count;
}

/** For metrics: the end of the last comparison, and its number of differences. Null: there was none. */
export async function readReconciliationState(
  em: EntityManager,
): Promise<{ endedAt: Date; differences: number } | null> {
  const [row] = await query<{ ended_at: string; differences: number }>(
    em.fork(),
    `select ended_at, (select count(*)::int from reconciliation_differences d
                        where d.reconciliation_id = r.reconciliation_id) as differences
       from reconciliations r where ended_at is not null order by started_at desc limit 1`,
  );
  return row ? { endedAt: new Date(row.ended_at), differences: row.differences } : null;
}

interface ReconciliationRow {
  reconciliation_id: string;
  started_at: string;
  ended_at: string | null;
  reads_processor: boolean;
  charges_from: string;
  charges_until: string;
}

function toReconciliation(row: ReconciliationRow): Reconciliation {
  return {
    reconciliationId: row.reconciliation_id,
    startedAt: new Date(row.started_at),
    endedAt: row.ended_at === null ? null : new Date(row.ended_at),
    readsProcessor: row.reads_processor,
    chargesFrom: new Date(row.charges_from),
    chargesUntil: new Date(row.charges_until),
  };
}
