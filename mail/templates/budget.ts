import type { LimitType } from '../../domain/billing/budget.ts';
import type { MailContent } from '../message.ts';
import { writeLetter } from './letter.ts';

/** Says that a threshold of a budget is reached. */
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
        ? 'When all of it is used, sandboxes and templates cannot be created, and sandboxes not resumed, until the period ends or a root user raises the budget. Sandboxes that run go on.'
        : 'This budget is a soft limit: it refuses nothing.',
    ],
    after: ['Root users of the account choose who gets this mail, and change the budget.'],
  });
}
