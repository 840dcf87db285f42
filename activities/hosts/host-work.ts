import { activityInfo, Context, heartbeat } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { MovedDirectly } from '../../db/sandboxes/sandbox-changes.ts';
import { AppError } from '../../domain/errors.ts';
import { movedDirectly } from '../../domain/sandboxes/life-plan.ts';
import { DriverError } from '../../runtime/driver.ts';
import { ShareInUse } from '../account-shares.ts';

/** The number of tries of an activity whose driver fails. */
const driverTries = 3;
/** The number of tries after other errors, such as an unreachable database. */
const otherTries = 12;
const maxCounts = 10_000;
/** The delay of the next try if the account already uses its share of the host. */
const shareRetry = '2 seconds';

/**
 * Returns a function that runs an activity of a host. It sends heartbeats, so that a dead host is noticed and a
 * cancellation arrives within a second. It turns errors into failures with their code. It counts tries itself, because
 * an attempt that the account's share did not admit does not count.
 */
export function hostWork() {
  const failed = new Map<string, number>();
  return async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const { heartbeatTimeoutMs, workflowExecution, activityId } = activityInfo();
    const key = `${workflowExecution?.runId}/${activityId}`;
    const tries = (failed.get(key) ?? 0) + 1;
    const beat = setInterval(() => heartbeat(), Math.min(500, (heartbeatTimeoutMs ?? 10_000) / 10));
    try {
      const result = await work(Context.current().cancellationSignal);
      failed.delete(key);
      return result;
    } catch (error) {
      if (error instanceof ShareInUse) {
        const options = { message: error.message, type: 'share_in_use', nextRetryDelay: shareRetry } as const;
        throw ApplicationFailure.create(options);
      }
      const failure = toActivityError(error, tries);
      failed.delete(key);
      if (failure instanceof ApplicationFailure && !failure.nonRetryable) failed.set(key, tries);
      // An activity that is cancelled between two tries leaves its count behind.
      if (failed.size > maxCounts) failed.delete(failed.keys().next().value!);
      throw failure;
    } finally {
      clearInterval(beat);
    }
  };
}

function toActivityError(error: unknown, tries: number): Error {
  if (Context.current().cancellationSignal.aborted) return new CancelledFailure('The work on the host was cancelled');
  if (error instanceof ApplicationFailure) return error;
  if (error instanceof AppError) return ApplicationFailure.nonRetryable(error.message, error.code);
  if (error instanceof MovedDirectly) return ApplicationFailure.nonRetryable(error.message, movedDirectly);
  if (error instanceof DriverError) {
    return ApplicationFailure.create({
      message: error.message,
      type: error.code,
      nonRetryable: !error.retryable || tries >= driverTries,
      details: error.exit ? [error.exit] : [],
    });
  }
  return ApplicationFailure.fromError(error, { nonRetryable: tries >= otherTries });
}
