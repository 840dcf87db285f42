import {
  condition,
  defineSignal,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { AccountMailActivities } from '../../activities/accounts/mails.ts';
import { passwordResetSeconds } from '../../domain/accounts/password-reset.ts';
import type { PasswordResetInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

/** The password has been set. The workflow ends, and another reset may begin. */
export const passwordSetSignal = defineSignal('passwordSet');

const mails = proxyActivities<AccountMailActivities>(outside.mailWithLink);

/**
 * Mails a user a link to set a new password. The link works once, for 30 minutes. A second reset is refused while this
 * workflow runs, so the workflow is also the rate limit. It ends early when the password is set, or the user is deleted.
 * Workflow id: `usr-…/password-reset`.
 */
export async function passwordReset({ userId }: PasswordResetInput): Promise<void> {
  let isSet = false;
  setHandler(passwordSetSignal, () => {
    isSet = true;
  });
  const expiresAtMs = workflowInfo().startTime.getTime() + passwordResetSeconds * 1000;
  setCurrentDetails('sends the link');
  if (!(await mails.sendPasswordResetMail({ userId, expiresAtMs }))) return setCurrentDetails('the user is gone');
  setCurrentDetails(`the link is sent; it works until ${new Date(expiresAtMs).toISOString()}`);
  await condition(() => isSet, Math.max(1, expiresAtMs - Date.now()));
  setCurrentDetails(isSet ? 'the password is set' : 'the link has expired');
}
