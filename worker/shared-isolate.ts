import { Worker } from '@temporalio/worker';
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js';

/**
 * A class of Temporal workers that run their workflows in one thread with one isolate. By default each worker has its
 * own, which uses about 50 MiB. All workers of the class must have the same workflows.
 */
export function workersWithSharedIsolate(): typeof Worker {
  let shared: Promise<WorkflowCreator> | null = null;
  let users = 0;
  return class extends Worker {
    protected static override async createWorkflowCreator(
      ...given: Parameters<(typeof Worker)['createWorkflowCreator']>
    ): Promise<WorkflowCreator> {
      shared ??= Worker.createWorkflowCreator(...given);
      users += 1;
      const creator = await shared;
      return {
        createWorkflow: (options) => creator.createWorkflow(options),
        async destroy() {
          users -= 1;
          if (users === 0) await creator.destroy();
        },
      };
    }
  };
}
