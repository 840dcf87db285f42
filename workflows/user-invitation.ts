import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { AccountMailActivities } from '../activities/account-mails.ts';
import { invitationSeconds } from '../domain/invitation.ts';
import type { UserInvitationInput } from '../domain/workflow-registry.ts';
import { outside } from './activity-profiles.ts';

const mails = proxyActivities<AccountMailActivities>(outside.mail);

/**
 * A link to a first password, mailed to a new user. Once it has expired, the user asks for another by "forgot password".
 * Workflow id: `usr-…/invitation`.
 */
export async function userInvitation({ userId }: UserInvitationInput): Promise<void> {
  const expiresAtMs = workflowInfo().startTime.getTime() + invitationSeconds * 1000;
  await mails.sendInvitationMail({ userId, expiresAtMs });
}
