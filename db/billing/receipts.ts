import type { EntityManager } from '@mikro-orm/postgresql';
import { decimal, inUnits } from '../../domain/billing/money.ts';
import type { Receipt } from '../../domain/billing/receipt.ts';
import { query } from '../core/query.ts';
import type { Invoice } from './invoices.ts';

/**
 * The contents of an issued invoice's receipt. Name and e-mail address are the account's current ones. The charge is
 * the successful one, if a card was charged.
 * @param issuer the issuer's lines of name and address
 */
export async function readReceipt(
  em: EntityManager,
  invoice: Invoice & Pick<Receipt, 'status'>,
  issuer: string,
): Promise<Receipt> {
  const [row] = await query<{
    email: string;
    display_name: string;
    brand: string | null;
    last4: string | null;
    payment_intent_id: string | null;
    amount_refunded: string;
  }>(
    em.fork(),
    `select a.email, a.display_name, m.brand, m.last4, i.payment_intent_id, coalesce(i.amount_refunded, 0)::text as amount_refunded
       from accounts a
       left join payment_intents i on i.payment_intent_id = ? and i.status = 'succeeded'
       left join payment_methods m on m.payment_method_id = i.payment_method_id
      where a.account_id = ?`,
    [invoice.paymentIntentId, invoice.accountId],
  );
  const { email, display_name: name, brand, last4, payment_intent_id: charge, amount_refunded: refunded } = row!;
  const { invoiceId, accountId, status, currency, lines } = invoice;
  return {
    ...{ invoiceId, status, issuer, currency, lines, customer: { accountId, name, email } },
    ...{ periodStart: invoice.periodStart, periodEnd: invoice.periodEnd },
    ...{ issuedAt: invoice.issuedAt!, dueAt: invoice.dueAt, paidAt: invoice.paidAt },
    ...{ subtotal: invoice.subtotal, taxRate: invoice.taxRate, taxAmount: invoice.taxAmount },
    ...{ totalAmount: invoice.totalAmount, paidFromBalance: invoice.paidFromBalance },
    amountRefunded: inUnits(decimal(refunded), currency),
    paymentMethod: last4 === null ? null : `${brand ?? 'card'} •••• ${last4}`,
    paymentReference: charge,
  };
}
