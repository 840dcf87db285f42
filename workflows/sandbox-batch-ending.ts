import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { executeChild, getExternalWorkflowHandle, isCancellation, sleep } from '@temporalio/workflow';
import { rows } from './sandbox/activities.ts';
import { type BatchEndingInput, endSignal } from './sandbox/messages.ts';
import { sandboxDeletion } from './sandbox-deletion.ts';

/** Section 8: how many of a batch are handled at the same time. */
const atOnce = 50;
const firstRetryMs = 250;
const longestRetryMs = 30_000;

/**
 * Ends the sandboxes of one accepted batch, each by a word to its own workflow: that request was answered when this
 * workflow was there. Workflow id: `bat-…`.
 */
export async function sandboxBatchEnding({ sandboxIds, forget }: BatchEndingInput): Promise<void> {
  const waiting = [...sandboxIds];
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) await end(id, forget);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

async function end(sandboxId: string, forget: boolean): Promise<void> {
  for (let retryMs = firstRetryMs; ; retryMs = Math.min(2 * retryMs, longestRetryMs)) {
    try {
      return await getExternalWorkflowHandle(sandboxId).signal(endSignal, { forget });
    } catch (error) {
      if (isCancellation(error)) throw error;
    }
    // Nobody is there to hear it: its life is over, or the outbox is about to begin it.
    const remains = await rows.findRemains(sandboxId);
    if (!remains) return;
    if (remains.over) return cleanUp(sandboxId, forget);
    await sleep(retryMs);
  }
}

async function cleanUp(sandboxId: string, forget: boolean): Promise<void> {
  try {
    await executeChild(sandboxDeletion, {
      workflowId: `${sandboxId}/deletion`,
      args: [{ sandboxId, forget }],
      parentClosePolicy: 'ABANDON',
    });
  } catch (error) {
    // Somebody else is at it.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}
