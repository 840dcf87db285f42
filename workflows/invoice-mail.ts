import { proxyActivities } from '@temporalio/workflow';
import type { AccountMailActivities } from '../activities/account-mails.ts';
import type { InvoiceMailInput } from '../domain/workflow-registry.ts';
import { outside } from './activity-profiles.ts';

const mails = proxyActivities<AccountMailActivities>(outside.mail);

/** Mails that an invoice could not be charged. By itself, so that a mail server that is away delays no charge. Workflow id: `inv-…/1/mail`. */
export async function invoiceMail(input: InvoiceMailInput): Promise<void> {
  await mails.sendInvoiceMail(input);
}
