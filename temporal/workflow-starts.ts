import type { SearchAttributePair } from '@temporalio/common';
import { controlTaskQueue } from '../domain/task-queues.ts';
import { type WorkflowInput, type WorkflowType, workflowKinds } from '../domain/workflow-registry.ts';
import { sandboxSearchAttributes, searchAttributes } from './search-attributes.ts';

/** The search attributes of each workflow type at its start. */
const searchAttributesOf: { [Type in WorkflowType]?: (input: WorkflowInput<Type>) => SearchAttributePair[] } = {
  sandbox: ({ plan }) => sandboxSearchAttributes(plan, 'starting'),
  passwordReset: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  userInvitation: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  userDeletion: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  billing: ({ accountId }) => [{ key: searchAttributes.accountId, value: accountId }],
  planChange: ({ accountId }) => [{ key: searchAttributes.accountId, value: accountId }],
  webhookDelivery: ({ accountId }) => [{ key: searchAttributes.accountId, value: accountId }],
  budget: ({ accountId }) => [{ key: searchAttributes.accountId, value: accountId }],
  host: ({ hostId }) => [{ key: searchAttributes.hostId, value: hostId }],
};

/**
 * Options for `client.workflow.start` and similar calls.
 * @param objectId the id of the object that the workflow is about
 */
export function startOptions<Type extends WorkflowType>(type: Type, objectId: string, input: WorkflowInput<Type>) {
  const { workflowId, mayRunAgain } = workflowKinds[type];
  const searchable = searchAttributesOf[type]?.(input);
  return {
    workflowId: workflowId(objectId),
    taskQueue: controlTaskQueue,
    args: (input === undefined ? [] : [input]) as WorkflowInput<Type> extends undefined ? [] : [WorkflowInput<Type>],
    workflowIdReusePolicy: mayRunAgain ? ('ALLOW_DUPLICATE' as const) : ('REJECT_DUPLICATE' as const),
    ...(searchable && { typedSearchAttributes: searchable }),
  };
}
