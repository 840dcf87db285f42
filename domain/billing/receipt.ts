import type { InvoiceLine, InvoiceStatus } from './invoice.ts';
import { type Amount, decimal, isZero } from './money.ts';

/** The contents of an invoice or a receipt. The texts are untrusted. */
export interface Receipt {
  invoiceId: string;
  status: Exclude<InvoiceStatus, 'draft'>;
  /** The issuer of the invoice: lines of name and address. */
  issuer: string;
  customer: { accountId: string; name: string; email: string };
  periodStart: Date;
  periodEnd: Date;
  issuedAt: Date;
  dueAt: Date | null;
  paidAt: Date | null;
  currency: string;
  lines: readonly InvoiceLine[];
  subtotal: Amount;
  /** A decimal as a string: `0.19` is 19 %. */
  taxRate: string;
  taxAmount: Amount;
  totalAmount: Amount;
  paidFromBalance: Amount;
  amountRefunded: Amount;
  /** For example `visa •••• 4242`. Null: no card was charged. */
  paymentMethod: string | null;
  /** The id of the charge at the payment processor. */
  paymentReference: string | null;
}

/** A paid invoice has a receipt. */
export function hasReceipt<T extends { status: InvoiceStatus }>(invoice: T): invoice is T & { status: 'paid' } {
  return invoice.status === 'paid';
}

/** The title of the document. */
export function receiptTitle({ status }: Pick<Receipt, 'status'>): string {
  return { paid: 'Receipt', open: 'Invoice', past_due: 'Invoice', void: 'Void invoice' }[status];
}

/** The facts of the invoice above its lines and below its sums, in pairs of a label and a text. */
export function receiptFacts(receipt: Receipt): [label: string, text: string][] {
  const { customer, issuedAt, dueAt, paidAt, periodStart, periodEnd } = receipt;
  const optional = (label: string, at: Date | null): [string, string][] => (at ? [[label, formatDay(at)]] : []);
  return [
    ['Number', receipt.invoiceId],
    ['Customer', shownText(customer.name)],
    ['E-mail', shownText(customer.email)],
    ['Account', customer.accountId],
    ['Period', `${formatDay(periodStart)} to ${formatDay(periodEnd)}`],
    ['Issued', formatDay(issuedAt)],
    ...(receipt.status === 'paid' ? [] : optional('Due', dueAt)),
    ...optional('Paid', paidAt),
    ...(receipt.paymentMethod === null ? [] : ([['Payment', shownText(receipt.paymentMethod)]] as [string, string][])),
    ...(receipt.paymentReference === null
      ? []
      : ([['Reference', shownText(receipt.paymentReference)]] as [string, string][])),
  ];
}

/** The sums below the lines, in pairs of a label and an amount. */
export function receiptSums(receipt: Receipt): [label: string, amount: string][] {
  const { currency, paidFromBalance, amountRefunded } = receipt;
  const percent = decimal(receipt.taxRate).times(100).toFixed();
  const optional = (label: string, amount: Amount): [string, string][] =>
    isZero(amount) ? [] : [[label, amountText(amount, currency)]];
  return [
    ['Subtotal', amountText(receipt.subtotal, currency)],
    [`Tax (${percent} %)`, amountText(receipt.taxAmount, currency)],
    ['Total', amountText(receipt.totalAmount, currency)],
    ...optional('Paid from the balance', paidFromBalance),
    ...optional('Given back', amountRefunded),
  ];
}

/**
 * The amount exactly as it is stored, and its currency. The sign is the minus of arithmetic, because a line does not
 * break after it.
 */
export function amountText(amount: Amount, currency: string): string {
  return `${amount.replace('-', '\u2212')} ${currency}`;
}

/**
 * A quantity without trailing zeros. A quantity with many digits is rounded for display; its amount is computed from
 * the exact quantity.
 */
export function quantityText(quantity: string): string {
  const exact = decimal(quantity);
  const rounded = exact.round(6);
  return `${exact.eq(rounded) ? '' : '≈ '}${rounded.toFixed()}`;
}

/**
 * Invisible characters, and characters that change the direction of the following text. They could make an amount look
 * different.
 */
const deceiving = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]+/gu;
const shownLength = 200;

/** A text of a user as one line of at most 200 characters, without characters that change how other text is shown. */
export function shownText(text: string): string {
  const clean = text.toWellFormed().replace(deceiving, ' ').trim();
  const characters = [...clean];
  return characters.length > shownLength ? `${characters.slice(0, shownLength - 1).join('')}…` : clean;
}

function formatDay(at: Date): string {
  return at.toISOString().slice(0, 10);
}
