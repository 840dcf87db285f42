import { z } from 'zod';
import type { Invoice } from '../../../../db/billing/invoices.ts';
import { invoiceStatuses } from '../../../../domain/billing/invoice.ts';
import { toJsonNumber } from '../../../../domain/billing/money.ts';
import { hasReceipt } from '../../../../domain/billing/receipt.ts';
import { time } from '../../../schemas/fields.ts';
import { amount, currency } from '../../../schemas/money.ts';

export const invoiceSchema = z
  .object({
    invoice_id: z.string(),
    account_id: z.string(),
    billing_period_start: time(),
    billing_period_end: time(),
    subtotal: amount(),
    tax_amount: amount(),
    total_amount: amount(),
    paid_from_balance: amount().describe('The rest is charged'),
    currency: currency(),
    status: z.enum(invoiceStatuses),
    issued_at: time().nullable(),
    due_date: time().nullable(),
    paid_at: time().nullable(),
    line_items: z.array(
      z.object({
        description: z.string(),
        quantity: z.number(),
        unit_price: z.number(),
        amount: amount(),
        type: z.enum(['subscription', 'usage']),
      }),
    ),
    has_receipt: z.boolean().describe('True once the invoice is paid: `GET /v1/billing/invoices/{invoice_id}/receipt`'),
    receipt_date: time().nullable(),
    payment_method: z.string().nullable().describe("The processor's id of the method that is charged"),
    payment_reference: z.string().nullable().describe('The charge'),
    failure_reason: z.string().nullable().describe('Why the last charge failed'),
  })
  .meta({ id: 'Invoice' });

export function presentInvoice(invoice: Invoice): z.output<typeof invoiceSchema> {
  return {
    invoice_id: invoice.invoiceId,
    account_id: invoice.accountId,
    billing_period_start: invoice.periodStart,
    billing_period_end: invoice.periodEnd,
    subtotal: toJsonNumber(invoice.subtotal),
    tax_amount: toJsonNumber(invoice.taxAmount),
    total_amount: toJsonNumber(invoice.totalAmount),
    paid_from_balance: toJsonNumber(invoice.paidFromBalance),
    currency: invoice.currency,
    status: invoice.status,
    issued_at: invoice.issuedAt,
    due_date: invoice.dueAt,
    paid_at: invoice.paidAt,
    line_items: invoice.lines.map(({ type, description, quantity, unitPrice, amount: lineAmount }) => ({
      description,
      quantity: Number(quantity),
      unit_price: toJsonNumber(unitPrice),
      amount: toJsonNumber(lineAmount),
      type,
    })),
    has_receipt: hasReceipt(invoice),
    receipt_date: hasReceipt(invoice) ? invoice.paidAt : null,
    payment_method: invoice.paymentMethodId,
    payment_reference: invoice.paymentIntentId,
    failure_reason: invoice.failureReason,
  };
}
