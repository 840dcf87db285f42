import { condition, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import type { AccountMailActivities } from '../activities/account-mails.ts';
import { passwordResetSeconds } from '../domain/password-reset.ts';
import type { PasswordResetInput } from '../domain/workflow-registry.ts';
import { outside } from './activity-profiles.ts';

/** The password has been set: another reset may begin. */
export const passwordSetSignal = defineSignal('passwordSet');

const mails = proxyActivities<AccountMailActivities>(outside.mailWithLink);

/**
 * A link to a new password, mailed to its user; works once, for 30 minutes. Another one can be asked for only when this
 * workflow is over, so it is the rate limit as well. Workflow id: `usr-…/password-reset`.
 */
export async function passwordReset({ userId }: PasswordResetInput): Promise<void> {
  let isSet = false;
  setHandler(passwordSetSignal, () => {
    isSet = true;
  });
  const expiresAtMs = workflowInfo().startTime.getTime() + passwordResetSeconds * 1000;
  await mails.sendPasswordResetMail({ userId, expiresAtMs });
  await condition(() => isSet, Math.max(1, expiresAtMs - Date.now()));
}
