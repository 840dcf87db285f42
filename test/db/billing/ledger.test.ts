import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { changeCredit, post, readBalance } from '../../../db/billing/ledger.ts';
import { bootstrap } from '../../../db/bootstrap.ts';
import { newId } from '../../../db/core/new-id.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import {
  balanceUseEntries,
  grantEntries,
  invoiceEntries,
  type LedgerEntries,
  paymentEntries,
  paymentRefundEntries,
  refundEntries,
  reversed,
} from '../../../domain/billing/ledger.ts';
import { sumAmounts } from '../../../domain/billing/money.ts';
import type { AccountId } from '../../../domain/ids.ts';
import { ledgerSums } from '../../support/ledger-sums.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
let accountId: AccountId;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 10);
  const made = await bootstrap(orm, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' });
  accountId = made!.accountId;
});
afterAll(async () => {
  await orm.close();
  await database.drop();
});

const usd = (entries: LedgerEntries, reference: string | null = null) => ({
  ...{ accountId, kind: 'payment_received' as const, currency: 'USD', description: 'test' },
  reference,
  entries,
});
const book = (posting: ReturnType<typeof usd>) => orm.em.fork().transactional((tx) => post(tx, posting));
const credit = (action: 'grant' | 'refund', amount: string) =>
  changeCredit(orm.em, {
    ...{ transactionId: newId('ledgerTransaction'), accountId, currency: 'USD', description: 'test' },
    action,
    amount,
  });
const balance = () => readBalance(orm.em.fork(), accountId, 'USD');
const countRows = async () => {
  const [row] = (await orm.em
    .fork()
    .execute(
      'select (select count(*) from ledger_transactions)::int + (select count(*) from ledger_entries)::int as n',
    )) as {
    n: number;
  }[];
  return row!.n;
};

test('each kind of posting sums to zero', () => {
  const invoice = invoiceEntries({ subtotal: '10.00', taxAmount: '1.90', totalAmount: '11.90' }, 'USD');
  const postings = [
    ...[grantEntries, refundEntries, balanceUseEntries, paymentEntries].map((make) => make('12.34', 'USD')),
    ...[paymentRefundEntries('12.34', '1.97', 'USD'), invoice, reversed(invoice, 'USD')],
  ];
  for (const entries of postings) {
    const sum = sumAmounts(
      entries.map(({ amount }) => amount),
      'USD',
    );
    expect([entries, sum]).toEqual([entries, '0.00']);
  }
});

test.each([
  [
    'do not sum to zero',
    [
      { ledgerAccount: 'cash', amount: '1.00' },
      { ledgerAccount: 'receivable', amount: '-0.99' },
    ],
  ],
  ['are one alone', [{ ledgerAccount: 'cash', amount: '1.00' }]],
])('the database refuses entries that %s', async (_what, entries) => {
  const before = await countRows();
  await expect(book(usd(entries as LedgerEntries))).rejects.toThrow(/do not sum to zero/);
  expect(await countRows()).toBe(before);
});

test('the database refuses a transaction without entries, entries of another account, and unknown ledger accounts', async () => {
  const insert = (sql: string) => orm.em.fork().execute(sql);
  await expect(
    insert(
      `insert into ledger_transactions (transaction_id, account_id, kind, currency, description)
       values ('ltx-empty', '${accountId}', 'credit_granted', 'USD', 'x')`,
    ),
  ).rejects.toThrow(/do not sum to zero/);
  await expect(
    insert(`insert into ledger_entries values ('ltx-none', '${accountId}', 'USD', 'cash', 1)`),
  ).rejects.toThrow(/foreign key/);
  await expect(insert(`insert into ledger_entries values ('ltx-none', 'a', 'USD', 'purse', 1)`)).rejects.toThrow(
    /check/,
  );
});

test('a later entry that makes the sum of a transaction wrong is refused', async () => {
  const transactionId = newId('ledgerTransaction');
  const posting = { ...usd(paymentEntries('5.00', 'USD')), transactionId };
  await book(posting);
  await expect(
    orm.em
      .fork()
      .execute(`insert into ledger_entries values ('${transactionId}', '${accountId}', 'USD', 'revenue', 0.01)`),
  ).rejects.toThrow(/do not sum to zero/);
});

test.each(['ledger_transactions', 'ledger_entries'])('%s cannot be changed, not even by the owner', async (table) => {
  await credit('grant', '1.00');
  const before = await countRows();
  for (const sql of [
    `update ${table} set account_id = account_id`,
    `delete from ${table}`,
    `truncate ${table} cascade`,
  ]) {
    await expect(orm.em.fork().execute(sql)).rejects.toThrow(/kept as it is/);
  }
  expect(await countRows()).toBe(before);
});

test('an external event is booked once, even by concurrent bookings', async () => {
  const entries = paymentEntries('7.00', 'USD');
  const booked = await Promise.all(Array.from({ length: 8 }, () => book(usd(entries, 'charge pi_1'))));
  expect(booked.filter(Boolean)).toHaveLength(1);
  const [row] = (await orm.em
    .fork()
    .execute("select count(*)::int as n from ledger_transactions where reference = 'charge pi_1'")) as { n: number }[];
  expect(row!.n).toBe(1);
});

test('an amount of zero is not booked', async () => {
  const before = await countRows();
  expect(await book(usd(paymentEntries('0.00', 'USD')))).toBe(true);
  expect(await countRows()).toBe(before);
});

test('concurrent refunds succeed only as far as the balance covers them', async () => {
  const before = await balance();
  await credit('grant', '10.00');
  expect(Number(await balance())).toBeCloseTo(Number(before) + 10, 10);
  await credit('refund', before === '0.00' ? '0.01' : before).catch(() => {});
  const left = await balance();
  const each = '3.00';
  const fits = Math.floor(Number(left) / 3);
  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => credit('refund', each)));
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(fits);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') expect(outcome.reason.code).toBe('balance_too_low');
  expect(Number(await balance())).toBeGreaterThanOrEqual(0);
});

test('the sums of all ledger accounts together are zero', async () => {
  const sums = await ledgerSums(orm.em.fork(), accountId);
  expect(sums.length).toBeGreaterThan(2);
  const [row] = (await orm.em.fork().execute('select sum(amount) = 0 as balanced from ledger_entries')) as {
    balanced: boolean;
  }[];
  expect(row!.balanced).toBe(true);
});

test('balances of other currencies are separate', async () => {
  await changeCredit(orm.em, {
    ...{ transactionId: newId('ledgerTransaction'), accountId, description: 'test', action: 'grant' },
    ...{ currency: 'JPY', amount: '500' },
  });
  expect(await readBalance(orm.em.fork(), accountId, 'JPY')).toBe('500');
  expect(await readBalance(orm.em.fork(), accountId, 'EUR')).toBe('0.00');
});
