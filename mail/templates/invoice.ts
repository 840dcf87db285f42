import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** Says that an invoice could not be charged, and what follows. */
export function invoiceMail(failed: {
  address: string;
  accountName: string;
  invoiceId: string;
  /** What is left to pay. */
  amount: string;
  currency: string;
  /** Of the payment processor, or ours. */
  reason: string | null;
  /** Null: the account is past due. */
  nextAttemptAt: Date | null;
}): MailContent {
  const { address, accountName, invoiceId, amount, currency, reason, nextAttemptAt } = failed;
  const what = `${amount} ${currency} of the invoice ${invoiceId} of the account ${accountName}`;
  const why =
    reason === 'no_payment_method'
      ? `There is no payment method that ${what} could be charged to.`
      : `The charge of ${what} was declined${reason === null ? '' : ` (${reason})`}.`;
  const when = nextAttemptAt && `${nextAttemptAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  return writeLetter({
    subject: when ? 'An invoice could not be charged' : 'An invoice is past due',
    greets: address,
    before: [
      why,
      when
        ? `It is tried again on ${when}. When the last attempt fails, sandboxes can be neither created nor resumed.`
        : 'No other attempt follows by itself. Until it is paid, sandboxes can be neither created nor resumed; what runs goes on until its timeout.',
      'With another payment method, or with enough credit, it is charged again at once.',
    ],
    after: ['Root users of the account add and choose payment methods.'],
  });
}
