import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { readReceipt } from '../../../db/billing/receipts.ts';
import { hasReceipt, type Receipt } from '../../../domain/billing/receipt.ts';
import { BoundedCounts } from '../../../domain/bounded-counts.ts';
import { AppError } from '../../../domain/errors.ts';
import { FairSemaphore } from '../../../domain/fair-semaphore.ts';
import { receiptHtml, receiptPolicy } from '../../../integrations/receipts/html.ts';
import { apiUrl } from '../../../platform/config/public-urls.ts';
import { accountRoot } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { resultOfThread } from '../../low-priority-thread.ts';
import { onRequestEnd } from '../../plugins/draining.ts';
import { optionalQuery } from '../../schemas/fields.ts';
import { failures } from '../../schemas/replies.ts';
import { invoiceParams, readInvoice } from './invoices.ts';

/** The number of threads of this process that draw PDFs, at most one for each account. */
const maxConcurrentPdfs = 2;
/** The maximum number of PDFs of an account: one is drawn, one waits. */
const pdfsOfAccount = 2;
const longestWaitMs = 10_000;
/** Ten thousand lines take some seconds. */
const longestDrawingMs = 30_000;
const thread = new URL('./receipt-thread.ts', import.meta.url);

/** `GET /v1/billing/invoices/{invoice_id}/receipt`: a paid invoice and its payment, to print and to keep. */
export function getReceipt(api: Api, deps: ApiDependencies): void {
  const turns = new FairSemaphore(maxConcurrentPdfs, 1);
  const ofAccounts = new BoundedCounts(pdfsOfAccount, 'receipts-of-account');

  async function createPdf(receipt: Receipt, reply: FastifyReply): Promise<Buffer> {
    const { accountId } = receipt.customer;
    if (!ofAccounts.tryAdd(accountId)) {
      const message = 'Too many receipts of the account are being made; wait until one is ready';
      throw new AppError('too_many_requests', message, { retryAfterSeconds: 1 });
    }
    try {
      const gone = new AbortController();
      onRequestEnd(reply, () => gone.abort());
      const turn = await turns
        .take(accountId, AbortSignal.any([gone.signal, AbortSignal.timeout(longestWaitMs)]))
        .catch((cause) => {
          const message = 'Too many receipts are being made; try again';
          throw new AppError('temporarily_unavailable', message, { cause, retryAfterSeconds: 10 });
        });
      try {
        const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(longestDrawingMs)]);
        return Buffer.from(await resultOfThread<Uint8Array>(thread, receipt, signal));
      } finally {
        turn.release();
      }
    } finally {
      ofAccounts.remove(accountId);
    }
  }

  api.route({
    method: 'GET',
    url: '/v1/billing/invoices/:invoice_id/receipt',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getReceipt',
      tags: ['Billing'],
      summary: 'Download the receipt of a paid invoice',
      description:
        'A PDF, or a self-contained HTML page. `has_receipt` of the invoice says whether there is one: an ' +
        'invoice that is ' +
        'not paid has none. Amounts are those of the invoice; name and e-mail are those that the account has now.',
      params: invoiceParams,
      querystring: z.object({
        format: optionalQuery(z.enum(['pdf', 'html'])).describe('`pdf` by default'),
      }),
      response: {
        200: {
          description: 'The receipt, with its file name in `Content-Disposition`',
          content: {
            'text/html': { schema: z.string() },
            'application/pdf': { schema: z.string().meta({ format: 'binary' }) },
          },
        },
        ...failures('root_required', 'invoice_of_another_account', 'not_found', 'invoice_not_paid'),
      },
    },
    handler: async (request, reply) => {
      const { em } = deps.orm;
      const invoice = await readInvoice(em, request, request.params.invoice_id);
      if (!hasReceipt(invoice)) throw new AppError('invoice_not_paid', 'The invoice is not paid, so it has no receipt');
      const issuer = deps.settings.PLATFORM_INVOICE_ISSUER?.replaceAll('\\n', '\n') ?? apiUrl(deps.settings);
      const receipt = await readReceipt(em, invoice, issuer);
      const isPage = request.query.format === 'html';
      const content = isPage ? receiptHtml(receipt) : await createPdf(receipt, reply);
      return (
        reply
          .headers({
            'content-type': isPage ? 'text/html; charset=utf-8' : 'application/pdf',
            'content-disposition': `attachment; filename="receipt-${invoice.invoiceId}.${isPage ? 'html' : 'pdf'}"`,
            ...(isPage && { 'content-security-policy': receiptPolicy }),
            ...{ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' },
          })
          // Both formats are sent unchanged. The schema has no type for bytes.
          .send(content as string)
      );
    },
  });
}
