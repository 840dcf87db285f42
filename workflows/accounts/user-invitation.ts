import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { AccountMailActivities } from '../../activities/accounts/mails.ts';
import { invitationSeconds } from '../../domain/accounts/invitation.ts';
import type { UserInvitationInput } from '../../domain/workflow-registry.ts';
import { outside } from '../activity-profiles.ts';

const mails = proxyActivities<AccountMailActivities>(outside.mail);

/**
 * Mails a new user a link to set the first password. After the link has expired, the user asks for another with "forgot
 * password". Workflow id: `usr-…/invitation`.
 */
export async function userInvitation({ userId }: UserInvitationInput): Promise<void> {
  const expiresAtMs = workflowInfo().startTime.getTime() + invitationSeconds * 1000;
  await mails.sendInvitationMail({ userId, expiresAtMs });
}
