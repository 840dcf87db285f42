import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import type { ErrorCode } from '../domain/errors.ts';
import { updateExpiryHeader } from '../domain/update-expiry.ts';

/**
 * A Temporal interceptor module that refuses updates whose callers have stopped waiting. Only updates with a validator
 * are checked. Validators do not run when a history is replayed.
 */
export const interceptors = (): WorkflowInterceptors => ({
  inbound: [
    {
      validateUpdate(input, next) {
        const payload = input.headers[updateExpiryHeader];
        const expiresAtMs: unknown = payload ? defaultPayloadConverter.fromPayload(payload) : null;
        if (typeof expiresAtMs === 'number' && expiresAtMs < Date.now()) {
          const code: ErrorCode = 'temporarily_unavailable';
          throw ApplicationFailure.nonRetryable(
            'The command arrived too late and was not carried out; try again',
            code,
          );
        }
        next(input);
      },
    },
  ],
});
