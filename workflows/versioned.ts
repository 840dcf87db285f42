import { setWorkflowOptions } from '@temporalio/workflow';
import { isWorkflowType, workflowKinds } from '../domain/workflow-registry.ts';
import * as workflows from './index.ts';

/**
 * The workflows for a worker with a version. Each has its versioning behaviour, which says what an upgrade does with
 * it.
 */
export * from './index.ts';

for (const [type, workflow] of Object.entries(workflows)) {
  if (!isWorkflowType(type)) throw new Error(`The workflow ${type} is not in the registry`);
  const versioningBehavior = workflowKinds[type].upgrade === 'pinned' ? 'PINNED' : 'AUTO_UPGRADE';
  setWorkflowOptions({ versioningBehavior }, workflow as (...input: unknown[]) => Promise<unknown>);
}
