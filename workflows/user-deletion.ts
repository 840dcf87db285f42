import {
  continueAsNew,
  defineQuery,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { UserDeletionActivities } from '../activities/user-deletion.ts';
import type { UserDeletionInput } from '../domain/workflow-registry.ts';
import { database } from './activity-profiles.ts';
import { endSandbox } from './end-sandbox.ts';

/** How far a deletion is. */
export interface DeletionProgress {
  status: 'in_progress' | 'completed';
  step: 'ending_sandboxes' | 'handing_over' | 'removing' | 'done';
  /** Sandboxes that have not ended, as of the last look. */
  sandboxesLeft: number;
}

export const progressQuery = defineQuery<DeletionProgress>('progress');

const firstLookMs = 500;
/** A sandbox whose host is away ends after some minutes. */
const longestLookMs = 30_000;

const rows = proxyLocalActivities<UserDeletionActivities>(database);

/**
 * Deletes a user who is disabled already: ends their sandboxes, hands over projects with ended sandboxes and templates
 * that others use to a root user of the account, and removes the rest. What a request that was under way adds meanwhile is
 * found by another round. Workflow id: `usr-…/deletion`.
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
    await sleep(firstLookMs);
  }
  progress.status = 'completed';
  progress.step = 'done';
  setCurrentDetails('The user is deleted');
}

async function endSandboxes(input: UserDeletionInput, progress: DeletionProgress): Promise<void> {
  const asked = new Set<string>();
  for (let waitMs = firstLookMs; ; waitMs = Math.min(2 * waitMs, longestLookMs)) {
    const { sandboxIds, total } = await rows.findSandboxesToEnd(input.userId);
    progress.sandboxesLeft = total;
    if (total === 0) return;
    setCurrentDetails(`${total} sandboxes are still to end`);
    const fresh = sandboxIds.filter((sandboxId) => !asked.has(sandboxId));
    await Promise.all(fresh.map((sandboxId) => endSandbox(sandboxId, false)));
    for (const sandboxId of fresh) asked.add(sandboxId);
    await sleep(waitMs, { summary: 'next look at the sandboxes' });
    await next(input);
  }
}

/** Keeps the history short: each step finds by itself what is left to do. */
async function next(input: UserDeletionInput): Promise<void> {
  if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof userDeletion>(input);
}
