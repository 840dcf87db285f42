import { proxyActivities } from '@temporalio/workflow';
import type { AccountMailActivities } from '../../activities/accounts/mails.ts';
import type { InvoiceMailInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

const mails = proxyActivities<AccountMailActivities>(outside.mail);

/**
 * Mails that the charge of an invoice failed. A separate workflow, so that a mail server outage delays no charge.
 * Workflow id: `inv-…/1/mail`.
 */
export async function invoiceMail(input: InvoiceMailInput): Promise<void> {
  await mails.sendInvoiceMail(input);
}
