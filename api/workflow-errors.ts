import {
  isGrpcServiceError,
  ServiceError,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { AppError, isErrorCode } from '../domain/errors.ts';

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
