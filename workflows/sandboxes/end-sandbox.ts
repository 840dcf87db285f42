import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { executeChild, getExternalWorkflowHandle, isCancellation, sleep, workflowInfo } from '@temporalio/workflow';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import { type SandboxDeletionInput, workflowKinds } from '../../domain/workflow-registry.ts';
import { searchAttributes } from '../../platform/temporal/search-attributes.ts';
import { sandboxDeletion } from './deletion.ts';
import { rows } from './life/activities.ts';
import { endSignal } from './life/messages.ts';

const firstRetryMs = 250;
const longestRetryMs = 30_000;

/**
 * Asks a sandbox to end. Returns when the sandbox's workflow has the signal, or when nothing is left to end.
 * @returns false when the history is long: the caller continues as new and asks again
 */
export async function endSandbox({ accountId, sandboxId, forget }: SandboxDeletionInput): Promise<boolean> {
  for (let retryMs = firstRetryMs; ; retryMs = Math.min(2 * retryMs, longestRetryMs)) {
    try {
      await getExternalWorkflowHandle(sandboxId).signal(endSignal, { forget });
      return true;
    } catch (error) {
      if (isCancellation(error)) throw error;
    }
    // No workflow can be signalled: the sandbox has ended, or the outbox has not started its workflow yet.
    const remains = await rows.findRemains(sandboxId);
    if (!remains) return true;
    if (remains.over) {
      await cleanUp({ accountId, sandboxId, forget });
      return true;
    }
    if (isHistoryLong()) return false;
    await sleep(retryMs, { summary: `next signal to ${sandboxId}` });
  }
}

/** Whether a workflow that ends many sandboxes has to continue as new. */
export function isHistoryLong(): boolean {
  return workflowInfo().continueAsNewSuggested;
}

async function cleanUp(end: SandboxDeletionInput): Promise<void> {
  try {
    await executeChild(sandboxDeletion, {
      workflowId: workflowKinds.sandboxDeletion.workflowId(end.sandboxId),
      taskQueue: controlTaskQueues[workflowKinds.sandboxDeletion.work],
      args: [end],
      typedSearchAttributes: [{ key: searchAttributes.accountId, value: end.accountId }],
      parentClosePolicy: 'ABANDON',
    });
  } catch (error) {
    // Another request already deletes it.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}
