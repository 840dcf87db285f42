import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { refreshDraft } from '../../../db/billing/billing-periods.ts';
import { findInvoice, type Invoice, listInvoices as readInvoices } from '../../../db/billing/invoices.ts';
import { invoiceStatuses } from '../../../domain/billing/invoice.ts';
import { toJsonNumber } from '../../../domain/billing/money.ts';
import { hasReceipt } from '../../../domain/billing/receipt.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { isId } from '../../../domain/ids.ts';
import { accountRoot, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import {
  accountQuery,
  createPagingQuery,
  paginationSchema,
  presentPagination,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { amount, currency } from './money.ts';

const invoiceSchema = z
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

function presentInvoice(invoice: Invoice): z.output<typeof invoiceSchema> {
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

export const invoiceParams = z.object({
  invoice_id: z.string().refine((id) => isId('invoice', id), 'must be the id of an invoice'),
});

/**
 * The invoice in the address. For an invoice of another account the contract requires 403.
 * @throws {AppError} `not_found`, `invoice_of_another_account`
 */
export async function readInvoice(em: EntityManager, request: FastifyRequest, invoiceId: string): Promise<Invoice> {
  const invoice = await findInvoice(em, invoiceId);
  if (!invoice) throw notFound('Invoice');
  const scope = requireScope(request);
  if (scope.rows !== 'everything' && scope.accountId !== invoice.accountId) {
    throw new AppError('invoice_of_another_account', 'The invoice belongs to another account');
  }
  return invoice;
}

/** `GET /v1/billing/invoices`. */
export function listInvoices(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/invoices',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listInvoices',
      tags: ['Billing'],
      summary: 'List the invoices of the account, newest first',
      description:
        'Invoices of periods and of plan changes, including drafts. Only `open` and `past_due` invoices are due.',
      querystring: z.object({ ...createPagingQuery(20), ...accountQuery }),
      response: {
        200: envelope(
          z.object({ invoices: z.array(invoiceSchema), pagination: paginationSchema }),
          'A page of invoices',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 20);
      const { invoices, ...page } = await readInvoices(deps.orm.em.fork(), requireScope(request), listing);
      return success({ invoices: invoices.map(presentInvoice), pagination: presentPagination(listing, page) });
    },
  });
}

/** `GET /v1/billing/invoices/{invoice_id}`. For an invoice of another account the contract requires 403. */
export function getInvoice(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/billing/invoices/:invoice_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getInvoice',
      tags: ['Billing'],
      summary: 'Get an invoice',
      description: 'Returns its lines, its tax, and how it was paid: from the balance first, the rest by a charge.',
      params: invoiceParams,
      response: {
        200: envelope(invoiceSchema, 'The invoice'),
        ...failures('root_required', 'invoice_of_another_account', 'not_found'),
      },
    },
    handler: async (request) => {
      return success(presentInvoice(await readInvoice(deps.orm.em, request, request.params.invoice_id)));
    },
  });
}

/**
 * `POST /v1/billing/invoice/generate`: the draft of the running period with its current usage. It is issued after the
 * period.
 */
export function generateInvoice(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/billing/invoice/generate',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'generateInvoice',
      tags: ['Billing'],
      summary: 'Make or update the draft of the current period',
      description:
        'A draft is not due and not charged. It is issued an hour after the end of its period, so that late ' +
        'usage can arrive.',
      response: {
        200: envelope(invoiceSchema, 'The draft'),
        ...failures(ofMutations, 'root_required', 'not_found'),
      },
    },
    handler: async (request) =>
      success(presentInvoice(await refreshDraft(deps.orm.em, requireCaller(request).accountId, new Date()))),
  });
}
