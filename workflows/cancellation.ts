import { CancellationScope, type WorkflowInterceptors, workflowInfo } from '@temporalio/workflow';
import { isWorkflowType, workflowKinds } from '../domain/workflow-registry.ts';

/**
 * A Temporal interceptor module that shields workflows from an operator's cancel in the Temporal Web UI, if the
 * registry says that they ignore it. Without it, a cancel would end them in the middle of their work.
 */
export const interceptors = (): WorkflowInterceptors => ({
  inbound: [
    {
      execute(input, next) {
        const { workflowType } = workflowInfo();
        const isShielded = isWorkflowType(workflowType) && workflowKinds[workflowType].cancel === 'ignored';
        return isShielded ? CancellationScope.nonCancellable(() => next(input)) : next(input);
      },
    },
  ],
});
