import type { WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { updateExpiryHeader } from '../domain/update-expiry.ts';
import { longDeadlineMs } from './client-connection-options.ts';

/**
 * Sends the time with each update at which the client stops waiting for it to be accepted. Workflows refuse it
 * afterwards, so a server that hung does not carry out commands whose callers have been told that they failed.
 */
export const updateExpiry: WorkflowClientInterceptor = {
  startUpdate(input, next) {
    const expiry = defaultPayloadConverter.toPayload(Date.now() + longDeadlineMs);
    return next({ ...input, headers: { ...input.headers, [updateExpiryHeader]: expiry } });
  },
};
