import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { AccountMailActivities } from '../../activities/accounts/mails.ts';
import type { BudgetActivities } from '../../activities/billing/budgets.ts';
import type { BudgetMailInput } from '../../domain/workflow-registry.ts';
import { database, outside } from '../activity-profiles.ts';

const mails = proxyActivities<AccountMailActivities>(outside.mail);
const rows = proxyLocalActivities<BudgetActivities>(database);

/**
 * Mails that a budget has reached a threshold. Each recipient gets a separate mail, so one bad address does not stop
 * the others. Fails when one of the mails could not be sent. Workflow id: `bgm-…`.
 */
export async function budgetMail({ messageId }: BudgetMailInput): Promise<void> {
  const count = await rows.countBudgetMailRecipients(messageId);
  const recipients = Array.from({ length: count }, (_, recipient) => recipient);
  const sent = await Promise.allSettled(recipients.map((recipient) => mails.sendBudgetMail({ messageId, recipient })));
  if (sent.some(({ status }) => status === 'fulfilled')) await rows.recordBudgetMailSent(messageId);
  const failed = sent.find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}
