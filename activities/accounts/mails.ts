import { createHash } from 'node:crypto';
import { activityInfo, Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { addAccountLink } from '../../db/accounts/account-links.ts';
import { findAccountAddress, findAccountName } from '../../db/accounts/account-settings.ts';
import { addEmailChangeToken } from '../../db/accounts/email-changes.ts';
import { findResettableUser } from '../../db/accounts/passwords.ts';
import { findMailReader } from '../../db/accounts/users.ts';
import { findBudgetMessage } from '../../db/billing/budget-messages.ts';
import { amountDue } from '../../db/billing/invoice-payments.ts';
import { findInvoice } from '../../db/billing/invoices.ts';
import type { Orm } from '../../db/orm.ts';
import type { EmailSide } from '../../domain/accounts/email-change.ts';
import type { UserId } from '../../domain/ids.ts';
import type { InvoiceMailInput } from '../../domain/workflow-registry.ts';
import { type Mailer, MailRejectedError } from '../../integrations/mail/mailer.ts';
import type { MailContent } from '../../integrations/mail/message.ts';
import { budgetMail } from '../../integrations/mail/templates/budget.ts';
import { emailChangeMail } from '../../integrations/mail/templates/email-change.ts';
import { invitationMail } from '../../integrations/mail/templates/invitation.ts';
import { invoiceMail } from '../../integrations/mail/templates/invoice.ts';
import { passwordResetMail } from '../../integrations/mail/templates/password-reset.ts';
import { accountPageUrl } from '../../platform/config/public-urls.ts';
import type { PlatformSecrets } from '../../platform/config/secrets.ts';
import type { Settings } from '../../platform/config/settings.ts';

/**
 * Sends mails to users. Each attempt sends the same mail under the same `Message-ID`. The secret token of a mail's link
 * is derived here from the id of the workflow's run, so it is in no argument, no result and no row.
 */
export function createAccountMailActivities(deps: {
  orm: Orm;
  mailer: Mailer;
  secrets: PlatformSecrets;
  settings: Settings;
}) {
  const { orm, mailer, secrets, settings } = deps;

  async function send(to: { name: string; address: string }, content: MailContent): Promise<void> {
    try {
      await mailer.send({ ...content, to, id: mailId() }, Context.current().cancellationSignal);
    } catch (error) {
      if (!(error instanceof MailRejectedError)) throw error;
      throw ApplicationFailure.nonRetryable(error.message, 'mail_rejected');
    }
  }

  async function findReaderOfLinks(userId: UserId) {
    return (await findResettableUser(orm.em, { userId })) && findMailReader(orm.em, userId);
  }

  return {
    /**
     * Makes the link and mails it. Sends nothing if the user is deleted, disabled, or signs in through an identity
     * provider. @returns whether there is such a user
     */
    async sendPasswordResetMail({ userId, expiresAtMs }: { userId: UserId; expiresAtMs: number }): Promise<boolean> {
      const reader = await findReaderOfLinks(userId);
      if (!reader) return false;
      const expiresAt = new Date(expiresAtMs);
      const token = secrets.linkToken('password-reset', activityInfo().workflowExecution!.runId);
      await addAccountLink(orm.em, { token, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
      const url = accountPageUrl(settings, 'reset-password', { token });
      await send(reader, passwordResetMail({ name: reader.name, url, expiresAt }));
      return true;
    },

    /**
     * Makes the link to set a first password and mails it. Sends nothing if the user has been deleted or disabled, or
     * has signed in through an identity provider.
     */
    async sendInvitationMail({ userId, expiresAtMs }: { userId: UserId; expiresAtMs: number }): Promise<void> {
      const reader = await findReaderOfLinks(userId);
      if (!reader) return;
      const expiresAt = new Date(expiresAtMs);
      const token = secrets.linkToken('password-reset', activityInfo().workflowExecution!.runId);
      await addAccountLink(orm.em, { token, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
      const url = accountPageUrl(settings, 'reset-password', { token });
      await send(reader, invitationMail({ ...reader, url, expiresAt }));
    },

    /** Makes one of the two links that confirm a change of an account's e-mail address, and mails it. */
    async sendEmailChangeMail({ changeId, side }: { changeId: string; side: EmailSide }): Promise<void> {
      const token = secrets.linkToken(`email-change ${side}`, changeId);
      const link = await addEmailChangeToken(orm.em, { changeId, side, token });
      if (!link) return;
      const url = accountPageUrl(settings, 'confirm-email-change', { token });
      await send({ name: '', address: link.to }, emailChangeMail({ ...link, side, url }));
    },

    /** Mails a budget's message to the recipient with this index. Sends nothing if the message was deleted. */
    async sendBudgetMail({ messageId, recipient }: { messageId: string; recipient: number }): Promise<void> {
      const message = await findBudgetMessage(orm.em, messageId);
      const address = message?.emailRecipients[recipient];
      if (!message || address === undefined) return;
      const accountName = await findAccountName(orm.em, message.accountId);
      const subject = message.emailSubject;
      await send({ name: '', address }, budgetMail({ ...message, subject, address, accountName }));
    },

    /** Mails the account's address. Sends nothing if the invoice is paid meanwhile or was tried again since. */
    async sendInvoiceMail({ invoiceId, attempt, nextAttemptAtMs }: InvoiceMailInput): Promise<void> {
      const invoice = await findInvoice(orm.em, invoiceId);
      const isOwed = invoice?.status === 'open' || invoice?.status === 'past_due';
      if (!isOwed || invoice.chargeAttempts !== attempt) return;
      const { accountId, currency, failureReason: reason } = invoice;
      const [address, accountName] = await Promise.all([
        findAccountAddress(orm.em, accountId),
        findAccountName(orm.em, accountId),
      ]);
      const nextAttemptAt = nextAttemptAtMs === null ? null : new Date(nextAttemptAtMs);
      const amount = amountDue(invoice);
      await send(
        { name: '', address },
        invoiceMail({ address, accountName, invoiceId, amount, currency, reason, nextAttemptAt }),
      );
    },
  };
}

export type AccountMailActivities = ReturnType<typeof createAccountMailActivities>;

/** The mail's id, which is the same for each attempt at one activity of one workflow run. */
function mailId(): string {
  const { workflowExecution, activityId } = activityInfo();
  return createHash('sha256').update(`${workflowExecution!.runId} ${activityId}`).digest('hex').slice(0, 32);
}
