import { ApplicationFailure } from '@temporalio/common';
import { temporalLine } from '../../worker/logging.ts';

const context = { workflowId: 'sbx-1', workflowType: 'sandbox', activityType: 'createSandbox', taskToken: 'long' };
const failed = (error: Error) =>
  temporalLine({ level: 'WARN', message: 'Activity failed', meta: { ...context, error } });

test('an activity that refuses a request is logged as one line without a stack', () => {
  const error = ApplicationFailure.nonRetryable('The bucket refuses the key', 'object_storage_mount_failed');
  expect(failed(error)).toEqual({
    level: 'info',
    fields: { workflowId: 'sbx-1', activityType: 'createSandbox', code: 'object_storage_mount_failed' },
    message: 'Refused: The bucket refuses the key',
  });
});

test.each([
  ['a fault of the platform', ApplicationFailure.nonRetryable('There is no sandbox', 'internal_error')],
  ['a failure with a type that is no code', ApplicationFailure.create({ message: 'No', type: 'sandbox_absent' })],
  ['any other error', new TypeError('x is not a function')],
])('%s is a warning with its stack', (_what, error) => {
  const { message, stack } = error;
  const type = error.name;
  expect(failed(error)).toEqual({
    level: 'warn',
    fields: { ...context, err: { type, message, stack } },
    message: 'Activity failed',
  });
});

test('fields that libraries add to their errors are left out', () => {
  const error = Object.assign(new Error('duplicate key'), { detail: 'Key (secret)=(hunter2) exists' });
  expect(JSON.stringify(failed(error))).not.toContain('hunter2');
});

test('the workflow of a failed sandbox is logged as one line', () => {
  const line = temporalLine({
    level: 'WARN',
    message: 'Workflow failed',
    meta: { ...context, error: new Error('host_lost') },
  });
  expect(line).toEqual({ level: 'info', fields: { sandboxId: 'sbx-1' }, message: 'host_lost' });
});

test('a host worker logs nothing about workflows, which it does not run', () => {
  expect(temporalLine({ level: 'WARN', message: 'No workflows registered, not polling', meta: {} })).toBeNull();
});
