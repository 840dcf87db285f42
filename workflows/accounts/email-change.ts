import {
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import type { EmailChangeActivities } from '../../activities/accounts/email-changes.ts';
import type { AccountMailActivities } from '../../activities/accounts/mails.ts';
import type { EmailChangeInput } from '../../domain/workflow-registry.ts';
import { database, outside } from '../activity-profiles.ts';

/** Both addresses have confirmed the change, or the change was cleared. */
export const emailChangeEndedSignal = defineSignal<[{ changeId: string }]>('emailChangeEnded');

const mails = proxyActivities<AccountMailActivities>(outside.mailWithLink);
const rows = proxyLocalActivities<EmailChangeActivities>(database);

/**
 * Changes an account's e-mail address: mails a link to the old and the new address, and ends when both links are used,
 * when the change is cleared, when the links expire, or when an operator cancels it. Workflow id: `acc-…/email-change`.
 */
export async function emailChange({ changeId }: EmailChangeInput): Promise<void> {
  let isOver = false;
  setHandler(emailChangeEndedSignal, (ended) => {
    if (ended.changeId === changeId) isOver = true;
  });
  const endsAtMs = await rows.findEmailChangeEnd(changeId);
  if (endsAtMs === null) {
    setCurrentDetails('the change is gone');
    return;
  }
  setCurrentDetails(`waits for both links until ${new Date(endsAtMs).toISOString()}`);
  const sent = Promise.allSettled([
    mails.sendEmailChangeMail({ changeId, side: 'current' }),
    mails.sendEmailChangeMail({ changeId, side: 'new' }),
  ]);
  try {
    await condition(() => isOver, Math.max(1, endsAtMs - Date.now()));
  } catch (error) {
    // An operator has cancelled the change.
    if (!isCancellation(error)) throw error;
  }
  // The links expire now, so mails that are still unsent are not sent any more.
  if (!isOver) await CancellationScope.nonCancellable(() => rows.expireEmailChange(changeId));
  setCurrentDetails(isOver ? 'both links are used, or the change is cleared' : 'the links have expired');
  await sent;
}
