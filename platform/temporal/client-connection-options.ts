import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { updateWaitMs } from '../../domain/update-expiry.ts';
import {
  type TemporalConnectionOptions,
  type TemporalConnectionSettings,
  temporalConnectionOptions,
} from './connection-options.ts';

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number];

/** For a call that the server answers at once. */
const shortDeadlineMs = 10_000;

/**
 * For a call that changes a namespace or all task queues of a deployment, or that the server answers after 20 s at the
 * latest and the client repeats.
 */
const longDeadlineMs = updateWaitMs;

const updates = new Set(['UpdateWorkflowExecution', 'ExecuteMultiOperation']);
const longCalls = new Set([
  ...updates,
  'PollWorkflowExecutionUpdate',
  'GetWorkflowExecutionHistory',
  'RegisterNamespace',
  'AddSearchAttributes',
  'SetWorkerDeploymentCurrentVersion',
]);

/** gRPC's RESOURCE_EXHAUSTED. */
const resourceExhausted = 8;

const withDeadline: Interceptor = (options, nextCall) => {
  const limitMs = longCalls.has(parseMethod(options)) ? longDeadlineMs : shortDeadlineMs;
  return nextCall({ ...options, deadline: options.deadline ?? Date.now() + limitMs }) as ReturnType<Interceptor>;
};

const usualRetries = defaultGrpcRetryOptions();
const retried = makeGrpcRetryInterceptor(usualRetries);

/**
 * A workflow with too many updates refuses further ones. Their callers get this refusal at once, because retries for
 * half a minute would keep the workflow overloaded.
 */
const retriedUnlessExhausted = makeGrpcRetryInterceptor({
  ...usualRetries,
  retryableDecider: (attempt, status) =>
    Number(status.code) !== resourceExhausted && usualRetries.retryableDecider(attempt, status),
});

const withRetries: Interceptor = (options, nextCall) =>
  (updates.has(parseMethod(options)) ? retriedUnlessExhausted : retried)(options, nextCall);

function parseMethod(options: Parameters<Interceptor>[0]): string {
  return options.method_definition.path.split('/').at(-1) ?? '';
}

/** Options for the connections of clients: a server that hangs delays a caller until a deadline, and not without end. */
export function clientConnectionOptions(
  settings: TemporalConnectionSettings,
): TemporalConnectionOptions & Pick<ConnectionOptions, 'interceptors'> {
  // The first interceptor is the outer one, so the deadline includes all retries of a call.
  return { ...temporalConnectionOptions(settings), interceptors: [withDeadline, withRetries] };
}
