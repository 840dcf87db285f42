import { defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { requestIdHeader } from '../domain/request-id-header.ts';

type Headers = Parameters<NonNullable<NonNullable<WorkflowInterceptors['inbound']>[number]['execute']>>[0]['headers'];

/** The request id of the message that is being handled now. */
let arriving: string | null = null;
/** The id of the request that the workflow currently works for. Its activities get this id. */
let acting: string | null = null;

/**
 * The request id of the message that is being handled now. Valid until the first `await` of the handler, because
 * another message may be handled after it.
 */
export const arrivingRequest = (): string | null => arriving;

/**
 * Activities that are scheduled from now on carry this request's id. Null: they carry none, for example when a timeout
 * acts.
 */
export function actFor(requestId: string | null): void {
  acting = requestId;
}

function read(headers: Headers): string | null {
  const payload = headers[requestIdHeader];
  const value: unknown = payload ? defaultPayloadConverter.fromPayload(payload) : null;
  return typeof value === 'string' ? value : null;
}

function withActing<Input extends { headers: Headers }>(input: Input): Input {
  if (acting === null) return input;
  return { ...input, headers: { ...input.headers, [requestIdHeader]: defaultPayloadConverter.toPayload(acting) } };
}

/**
 * A Temporal interceptor module that passes request ids from messages to activities, for logs. Headers do not change
 * the commands of a recorded history.
 */
export const interceptors = (): WorkflowInterceptors => ({
  inbound: [
    {
      execute(input, next) {
        acting = read(input.headers);
        return next(input);
      },
      handleUpdate(input, next) {
        arriving = read(input.headers);
        try {
          return next(input);
        } finally {
          arriving = null;
        }
      },
    },
  ],
  outbound: [
    {
      scheduleActivity: (input, next) => next(withActing(input)),
      scheduleLocalActivity: (input, next) => next(withActing(input)),
    },
  ],
});
