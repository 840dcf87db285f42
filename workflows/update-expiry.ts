import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import type { ErrorCode } from '../domain/errors.ts';
import { updateExpiryHeader, updateWaitMs } from '../domain/update-expiry.ts';

/** How far ahead a caller's clock may be. A command may be carried out so long after its caller has given up. */
const toleranceMs = 2000;

/**
 * A Temporal interceptor module that refuses updates whose callers have stopped waiting. Only updates with a validator
 * are checked. Validators do not run when a history is replayed.
 *
 * The clock here is Temporal's. If the caller's clock differs, its update looks expired, or as if the caller waited
 * longer than callers do. The refusal has the time as its detail, so that the caller can correct its own.
 */
export const interceptors = (): WorkflowInterceptors => ({
  inbound: [
    {
      validateUpdate(input, next) {
        const payload = input.headers[updateExpiryHeader];
        const expiresAtMs: unknown = payload ? defaultPayloadConverter.fromPayload(payload) : null;
        const leftMs = typeof expiresAtMs === 'number' ? expiresAtMs - Date.now() : 0;
        if (leftMs < 0 || leftMs > updateWaitMs + toleranceMs) {
          const code: ErrorCode = 'temporarily_unavailable';
          throw ApplicationFailure.nonRetryable(
            'The command arrived too late and was not carried out; try again',
            code,
            { [updateExpiryHeader]: Date.now() },
          );
        }
        next(input);
      },
    },
  ],
});
