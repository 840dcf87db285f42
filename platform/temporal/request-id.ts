import { AsyncLocalStorage } from 'node:async_hooks';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { requestIdHeader } from '../../domain/request-id-header.ts';

/** The id of the API request that an activity works for. Null: it works for no request. */
export const activityRequest = new AsyncLocalStorage<string | null>();

/** The id in the headers of a workflow, an update or an activity. */
export function readRequestId(headers: Headers): string | null {
  const payload = headers[requestIdHeader];
  const value: unknown = payload ? defaultPayloadConverter.fromPayload(payload) : null;
  return typeof value === 'string' ? value : null;
}

/**
 * Sends the id of the current request with each start and update, so that the log lines of all processes about one
 * request can be found by its id.
 * @param currentRequestId returns the id of the current request; undefined when there is none
 */
export function requestIdInterceptor(currentRequestId: () => string | undefined): WorkflowClientInterceptor {
  const withId = (headers: Headers): Headers => {
    const id = currentRequestId();
    return id === undefined ? headers : { ...headers, [requestIdHeader]: defaultPayloadConverter.toPayload(id) };
  };
  return {
    startWithDetails: (input, next) => next({ ...input, headers: withId(input.headers) }),
    startUpdate: (input, next) => next({ ...input, headers: withId(input.headers) }),
    startUpdateWithStart: (input, next) =>
      next({
        ...input,
        workflowStartHeaders: withId(input.workflowStartHeaders),
        updateHeaders: withId(input.updateHeaders),
      }),
  };
}
