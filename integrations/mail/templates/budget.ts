import type { LimitType } from '../../../domain/billing/budget.ts';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** The mail that a threshold of a budget was reached. */
export function budgetMail(alert: {
  subject: string;
  address: string;
  accountName: string;
  usageAmount: string;
  budgetAmount: string;
  currency: string;
  percentageUsed: string;
  limitType: LimitType;
  periodEnd: Date;
}): MailContent {
  const { subject, address, accountName, usageAmount, budgetAmount, currency, percentageUsed, limitType } = alert;
  const until = `${alert.periodEnd.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  return writeLetter({
    subject,
    greets: address,
    before: [
      `The account ${accountName} has used ${usageAmount} ${currency} of its budget of ${budgetAmount} ${currency} (${percentageUsed} %). The period ends on ${until}.`,
      limitType === 'hard'
        ? 'When the budget is used up, creating sandboxes and templates and resuming sandboxes is refused until the period ends or a root user raises the budget. Running sandboxes continue.'
        : 'This budget is a soft limit: it only sends alerts and refuses nothing.',
    ],
    after: ['Root users of the account can change the budget and the recipients of this mail.'],
  });
}
