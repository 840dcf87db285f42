import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { findInvoice, type Invoice } from '../../../../db/billing/invoices.ts';
import { AppError, notFound } from '../../../../domain/errors.ts';
import { isId } from '../../../../domain/ids.ts';
import { scopeOf } from '../../../access.ts';

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
  const scope = scopeOf(request);
  if (scope.rows !== 'everything' && scope.accountId !== invoice.accountId) {
    throw new AppError('invoice_of_another_account', 'The invoice belongs to another account');
  }
  return invoice;
}
