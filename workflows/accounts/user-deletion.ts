import {
  continueAsNew,
  defineQuery,
  getExternalWorkflowHandle,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { UserDeletionActivities } from '../../activities/accounts/user-deletion.ts';
import type { UserId } from '../../domain/ids.ts';
import { type UserDeletionInput, workflowKinds } from '../../domain/workflow-registry.ts';
import { database } from '../activity-profiles.ts';
import { endSandbox } from '../sandboxes/end-sandbox.ts';
import { passwordSetSignal } from './password-reset.ts';

/** The progress of a deletion. */
export interface DeletionProgress {
  status: 'in_progress' | 'completed';
  step: 'ending_sandboxes' | 'handing_over' | 'removing' | 'done';
  /** The number of sandboxes that had not ended when the workflow last counted them. */
  sandboxesLeft: number;
}

export const progressQuery = defineQuery<DeletionProgress>('progress');

const firstPollMs = 500;
/** The longest wait between two counts. A sandbox with an absent host ends after some minutes. */
const longestPollMs = 30_000;

const rows = proxyLocalActivities<UserDeletionActivities>(database);

/**
 * Deletes a disabled user: ends their sandboxes, hands over projects with ended sandboxes and templates that other
 * users use to a root user of the account, and removes the rest. Another round finds what a concurrent request has
 * added. Workflow id: `usr-…/deletion`.
 */
export async function userDeletion(input: UserDeletionInput): Promise<void> {
  const { userId } = input;
  const progress: DeletionProgress = { status: 'in_progress', step: 'ending_sandboxes', sandboxesLeft: 0 };
  setHandler(progressQuery, () => progress);
  for (;;) {
    progress.step = 'ending_sandboxes';
    await endSandboxes(input, progress);
    progress.step = 'handing_over';
    setCurrentDetails('Hands projects and templates over to a root user');
    for (let moved = await rows.handOver(userId); moved > 0; moved = await rows.handOver(userId)) await next(input);
    progress.step = 'removing';
    setCurrentDetails('Removes keys, notifications and quotas');
    let outcome = await rows.removeUser(userId);
    for (; outcome === 'more'; outcome = await rows.removeUser(userId)) await next(input);
    if (outcome === 'done') break;
    await sleep(firstPollMs);
  }
  await endPasswordReset(userId);
  progress.status = 'completed';
  progress.step = 'done';
  setCurrentDetails('The user is deleted');
}

async function endSandboxes(input: UserDeletionInput, progress: DeletionProgress): Promise<void> {
  const { accountId, userId } = input;
  const asked = new Set<string>();
  for (let waitMs = firstPollMs; ; waitMs = Math.min(2 * waitMs, longestPollMs)) {
    const { sandboxIds, total } = await rows.findSandboxesToEnd(userId);
    progress.sandboxesLeft = total;
    if (total === 0) return;
    setCurrentDetails(`${total} sandboxes are still to end`);
    const fresh = sandboxIds.filter((sandboxId) => !asked.has(sandboxId));
    await Promise.all(fresh.map((sandboxId) => endSandbox({ accountId, sandboxId, forget: false })));
    for (const sandboxId of fresh) asked.add(sandboxId);
    await sleep(waitMs, { summary: 'next look at the sandboxes' });
    await next(input);
  }
}

/** The link of a reset is deleted with the user. */
async function endPasswordReset(userId: UserId): Promise<void> {
  const workflowId = workflowKinds.passwordReset.workflowId(userId);
  // Usually no reset is in progress.
  await getExternalWorkflowHandle(workflowId)
    .signal(passwordSetSignal)
    .catch(() => {});
}

/** Continues as new to keep the history short. Each step finds the remaining work in the rows. */
async function next(input: UserDeletionInput): Promise<void> {
  if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof userDeletion>(input);
}
