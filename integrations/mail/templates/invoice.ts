import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** The mail that the charge of an invoice failed, with the next steps. */
export function invoiceMail(failed: {
  address: string;
  accountName: string;
  invoiceId: string;
  /** The unpaid amount. */
  amount: string;
  currency: string;
  /** The payment processor's reason, or ours. */
  reason: string | null;
  /** Null: the account is past due. */
  nextAttemptAt: Date | null;
}): MailContent {
  const { address, accountName, invoiceId, amount, currency, reason, nextAttemptAt } = failed;
  const what = `${amount} ${currency} of the invoice ${invoiceId} of the account ${accountName}`;
  const why =
    reason === 'no_payment_method'
      ? `The account has no payment method to charge ${what}.`
      : `The charge of ${what} was declined${reason === null ? '' : ` (${reason})`}.`;
  const when = nextAttemptAt && `${nextAttemptAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  return writeLetter({
    subject: when ? 'An invoice could not be charged' : 'An invoice is past due',
    greets: address,
    before: [
      why,
      when
        ? `The next attempt is on ${when}. If the last attempt fails, sandboxes can be neither created nor resumed.`
        : 'There are no further automatic attempts. Until the invoice is paid, sandboxes can be neither created nor resumed; running sandboxes continue until their timeout.',
      'If you add another payment method or enough credit, the invoice is charged again immediately.',
    ],
    after: ['Root users of the account can add and choose payment methods.'],
  });
}
