import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';

const { WorkflowTaskFailedCause: cause } = proto.temporal.api.enums.v1;

/** The limit of each question. The caller already waits for long. */
const limitMs = 3000;
/** A failed task is among the last events, because Temporal records only the first failure of a task. */
const lastEvents = 10;

/** Workers fail tasks with these causes if the workflow's code does not fit its history, or throws. */
const ofCode = [
  cause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR,
  cause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
];

/**
 * Whether a workflow does not answer because the code of the workers fails on it, and not because the workers are busy
 * or away. False also if Temporal does not say it in time.
 */
export async function isFailing(client: Client, workflowId: string): Promise<boolean> {
  try {
    return await client.withDeadline(Date.now() + limitMs, () => hasFailedTask(client, workflowId));
  } catch {
    return false;
  }
}

async function hasFailedTask(client: Client, workflowId: string): Promise<boolean> {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  if ((raw.pendingWorkflowTask?.attempt ?? 1) <= 1) return false;
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: client.options.namespace,
    execution: { workflowId },
    maximumPageSize: lastEvents,
  });
  const failed = history?.events?.find((event) => event.workflowTaskFailedEventAttributes);
  const failure = failed?.workflowTaskFailedEventAttributes?.cause;
  return failure != null && ofCode.includes(failure);
}
