import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  setCurrentDetails,
  sleep,
} from '@temporalio/workflow';
import { type BatchEndingInput, workflowKinds } from '../domain/workflow-registry.ts';
import { rows } from './sandbox/activities.ts';
import { endSignal } from './sandbox/messages.ts';
import { sandboxDeletion } from './sandbox-deletion.ts';

/** Sandboxes of a batch that are handled at the same time. */
const concurrency = 50;
const firstRetryMs = 250;
const longestRetryMs = 30_000;

/**
 * Ends the sandboxes of one accepted batch, each by a signal to its own workflow. The caller has its reply as soon as
 * this workflow is started. The workflow id is `bat-…`.
 */
export async function sandboxBatchEnding({ sandboxIds, forget }: BatchEndingInput): Promise<void> {
  const waiting = [...sandboxIds];
  let ended = 0;
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      await end(id, forget);
      ended += 1;
      setCurrentDetails(`${ended} of ${sandboxIds.length} sandboxes have been requested to end`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}

async function end(sandboxId: string, forget: boolean): Promise<void> {
  for (let retryMs = firstRetryMs; ; retryMs = Math.min(2 * retryMs, longestRetryMs)) {
    try {
      return await getExternalWorkflowHandle(sandboxId).signal(endSignal, { forget });
    } catch (error) {
      if (isCancellation(error)) throw error;
    }
    // There is no workflow to signal: the sandbox has ended, or the outbox has not started it yet.
    const remains = await rows.findRemains(sandboxId);
    if (!remains) return;
    if (remains.over) return cleanUp(sandboxId, forget);
    await sleep(retryMs, { summary: `next signal to ${sandboxId}` });
  }
}

async function cleanUp(sandboxId: string, forget: boolean): Promise<void> {
  try {
    await executeChild(sandboxDeletion, {
      workflowId: workflowKinds.sandboxDeletion.workflowId(sandboxId),
      args: [{ sandboxId, forget }],
      parentClosePolicy: 'ABANDON',
    });
  } catch (error) {
    // Another request deletes it already.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}
