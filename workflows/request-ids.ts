import { defaultPayloadConverter } from '@temporalio/common';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { requestIdHeader } from '../domain/request-id-header.ts';

type Headers = Parameters<NonNullable<NonNullable<WorkflowInterceptors['inbound']>[number]['execute']>>[0]['headers'];

/** Of the message whose handler is called in this moment. */
let arriving: string | null = null;
/** Of the request that the workflow works for now; its activities get it. */
let acting: string | null = null;

/**
 * The id of the request whose message is handled now. Valid until the first `await` of the handler: then another message
 * may be handled.
 */
export const arrivingRequest = (): string | null => arriving;

/** From now on activities are scheduled for this request. Null: for none, as when a timeout acts. */
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
 * Takes the ids of requests from messages to activities, for logs. Temporal loads it as an interceptor module. Headers
 * change no command of a recorded history.
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
