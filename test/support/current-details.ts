import type { WorkflowHandle } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

type WorkflowMetadata = temporal.api.sdk.v1.IWorkflowMetadata;

/** The current details of a workflow, as the Web UI shows them. */
export async function currentDetails(handle: WorkflowHandle): Promise<string | null | undefined> {
  return (await handle.query<WorkflowMetadata>('__temporal_workflow_metadata')).currentDetails;
}
