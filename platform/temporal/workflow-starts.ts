import type { SearchAttributePair } from '@temporalio/common';
import type { AccountId } from '../../domain/ids.ts';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import {
  type WorkflowInput,
  type Workflows,
  type WorkflowType,
  workflowKinds,
} from '../../domain/workflow-registry.ts';
import { sandboxSearchAttributes, searchAttributes } from './search-attributes.ts';

/** The search attributes of workflow types at their start, in addition to the account. */
const toSearchAttributes: { [Type in WorkflowType]?: (input: WorkflowInput<Type>) => SearchAttributePair[] } = {
  sandbox: ({ plan, running }) =>
    sandboxSearchAttributes(plan, running ? 'running' : 'starting').filter(
      ({ key }) => key !== searchAttributes.accountId,
    ),
  passwordReset: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  userInvitation: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  userDeletion: ({ userId }) => [{ key: searchAttributes.userId, value: userId }],
  templateBuild: ({ templateId }) => [{ key: searchAttributes.templateId, value: templateId }],
  host: ({ hostId }) => [{ key: searchAttributes.hostId, value: hostId }],
};

/**
 * Options for `client.workflow.start` and similar calls.
 * @param objectId the id of the object that the workflow is about
 */
export function startOptions<Type extends WorkflowType>(type: Type, objectId: string, input: WorkflowInput<Type>) {
  const { workflowId, mayRunAgain, work } = workflowKinds[type];
  const accountId = findAccountId(input);
  const ofAccount = accountId ? [{ key: searchAttributes.accountId, value: accountId }] : [];
  return {
    workflowId: workflowId(objectId),
    taskQueue: controlTaskQueues[work],
    args: (input === undefined ? [] : [input]) as WorkflowInput<Type> extends undefined ? [] : [WorkflowInput<Type>],
    workflowIdReusePolicy: mayRunAgain ? ('ALLOW_DUPLICATE' as const) : ('REJECT_DUPLICATE' as const),
    typedSearchAttributes: [...ofAccount, ...(toSearchAttributes[type]?.(input) ?? [])],
    ...computeStartDelay(input),
    // Activities inherit it, so the workers know whose they are (`account-slots.ts`).
    ...(accountId && { priority: { fairnessKey: accountId } }),
  };
}

/** A delivery's workflow has nothing to do before its first attempt. */
function computeStartDelay(input: Workflows[WorkflowType]['input']): { startDelay?: number } {
  if (!input || !('deliveryId' in input)) return {};
  const waitMs = input.nextAttemptAtMs - Date.now();
  return waitMs > 0 ? { startDelay: waitMs } : {};
}

/** Null: the workflow belongs to no account. */
function findAccountId(input: Workflows[WorkflowType]['input']): AccountId | null {
  if (!input) return null;
  if ('plan' in input) return input.plan.accountId;
  return 'accountId' in input ? input.accountId : null;
}
