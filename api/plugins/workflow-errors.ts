import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import proto from '@temporalio/proto';
import { AppError, isErrorCode } from '../../domain/errors.ts';

/** gRPC's RESOURCE_EXHAUSTED: too many updates in flight for one workflow. */
const resourceExhausted = 8;

/** gRPC's FAILED_PRECONDITION. Temporal refuses updates so if the workers have failed a workflow's task three times. */
const failedPrecondition = 9;

/**
 * The error for the caller when a call of Temporal fails. A workflow refuses with an `ApplicationFailure` whose type is
 * an error code. Other errors mean that Temporal is away or busy, and the caller may retry. Null: not an error of
 * Temporal.
 */
export function workflowError(error: unknown): AppError | null {
  if (error instanceof WorkflowUpdateFailedError || error instanceof WorkflowFailedError) {
    const refusal = refusalIn(error);
    if (refusal) return refusal;
  }
  const cause = error instanceof ServiceError ? error.cause : error;
  if (isGrpcServiceError(cause) && Number(cause.code) === resourceExhausted) {
    return new AppError('too_many_requests', 'Too many commands for this object at once; try again', { cause: error });
  }
  if (isGrpcServiceError(cause) && Number(cause.code) === failedPrecondition && /failed state/.test(cause.details)) {
    return workflowFailing(error);
  }
  if (isGrpcServiceError(cause) || isOfTemporal(error)) {
    return new AppError('temporarily_unavailable', 'The command could not be delivered now; try again', {
      cause: error,
    });
  }
  return null;
}

/** The workers' code fails on the workflow of the object. Only an operator can mend that. */
export function workflowFailing(cause: unknown): AppError {
  return new AppError(
    'workflow_failing',
    'The platform cannot carry out commands on this object at present; its operators are alerted',
    { cause, retryAfterSeconds: 60 },
  );
}

/** The first failure in the chain of causes with an error code. The failure of an activity is one level deeper. */
function refusalIn(error: Error): AppError | null {
  for (let cause = error.cause; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ApplicationFailure && isErrorCode(cause.type)) {
      return new AppError(cause.type, cause.message, { cause: error });
    }
  }
  return null;
}

function isOfTemporal(error: unknown): boolean {
  return [
    ServiceError,
    WorkflowFailedError,
    WorkflowNotFoundError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
  ].some((type) => error instanceof type);
}

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
