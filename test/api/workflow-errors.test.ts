import { expect, test } from '@jest/globals';
import { ServiceError, WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure, RetryState, WorkflowNotFoundError } from '@temporalio/common';
import { workflowError } from '../../api/plugins/workflow-errors.ts';

const grpc = (code: number) => Object.assign(new Error('gRPC'), { code, details: 'none', metadata: {} });
const refusal = ApplicationFailure.nonRetryable('The sandbox is paused', 'sandbox_not_running');
const inActivity = new ActivityFailure(
  'Activity failed',
  'charge',
  '1',
  RetryState.NON_RETRYABLE_FAILURE,
  'worker',
  refusal,
);

test.each([
  ['an update that is refused', new WorkflowUpdateFailedError('failed', refusal), 'sandbox_not_running'],
  [
    'a workflow that fails',
    new WorkflowFailedError('failed', refusal, RetryState.NON_RETRYABLE_FAILURE),
    'sandbox_not_running',
  ],
  [
    'an activity that fails',
    new WorkflowFailedError('failed', inActivity, RetryState.NON_RETRYABLE_FAILURE),
    'sandbox_not_running',
  ],
  [
    'a failure without a code',
    new WorkflowUpdateFailedError('failed', new ApplicationFailure('secret')),
    'temporarily_unavailable',
  ],
  ['too many updates', new ServiceError('busy', { cause: grpc(8) }), 'too_many_requests'],
  ['a server that is away', new ServiceError('away', { cause: grpc(14) }), 'temporarily_unavailable'],
  ['no such workflow', new WorkflowNotFoundError('none', 'wf', undefined), 'temporarily_unavailable'],
])('%s becomes the error of its caller', (_what, error, code) => {
  const mapped = workflowError(error);
  expect(mapped?.code).toBe(code);
  expect(mapped?.message).not.toContain('secret');
});

test.each([
  ['a mistake of ours', new TypeError('x is not a function')],
  ['no error', null],
])('%s is not an error of the caller', (_what, error) => {
  expect(workflowError(error)).toBeNull();
});
