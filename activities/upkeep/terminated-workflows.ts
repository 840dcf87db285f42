import { activityInfo, getClient } from '@temporalio/activity';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import proto from '@temporalio/proto';
import { requestStart } from '../../db/core/outbox.ts';
import type { Orm } from '../../db/orm.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { findSandboxStatus } from '../../db/sandboxes/sandbox-status.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { isOver } from '../../domain/sandboxes/state.ts';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import { isWorkflowType, type WorkflowType, workflowKinds } from '../../domain/workflow-registry.ts';

const enums = proto.temporal.api.enums.v1;

/** The number of closed workflows that one round checks. */
const maxChecked = 10_000;

/** An operator has terminated the workflow, or Temporal has, because its history was too long. */
const terminated = ['TERMINATED', 'TIMED_OUT'];

/** Repairs what a terminated workflow leaves behind. Unlike a cancel, a terminate gives a workflow no time to clean up. */
export function createTerminatedWorkflowActivities({ orm }: { orm: Orm }) {
  return {
    /**
     * Starts terminated workflows again with their input, and ends sandboxes whose own workflow was terminated.
     * @returns the number of them
     */
    async replaceTerminatedWorkflows(): Promise<number> {
      const client = getClient();
      const query = 'ExecutionStatus = "Terminated" OR ExecutionStatus = "TimedOut"';
      let [checked, replaced] = [0, 0];
      for await (const { workflowId, runId, type } of client.workflow.list({ query })) {
        checked += 1;
        if (checked > maxChecked) break;
        if (!isWorkflowType(type)) continue;
        const { terminate } = workflowKinds[type];
        if (terminate === 'ended') replaced += Number(await endSandbox(client, workflowId as SandboxId));
        if (terminate === 'restarted') replaced += Number(await startAgain(client, type, { workflowId, runId }));
      }
      return replaced;
    },

    /** Whether the workflow of a sandbox has closed although the sandbox has not ended. */
    async isOrphan(sandboxId: SandboxId): Promise<boolean> {
      const row = await findSandboxStatus(orm.em, sandboxId);
      return row !== null && !isOver(row.status) && (await isTerminated(getClient(), sandboxId));
    },
  };

  async function endSandbox(client: Client, sandboxId: SandboxId): Promise<boolean> {
    const row = await orm.em.fork().findOne(Sandbox, { sandboxId }, { fields: ['status', 'accountId'] });
    if (!row || isOver(row.status) || !(await isTerminated(client, sandboxId))) return false;
    const tx = orm.em.fork();
    requestStart(tx, 'sandboxDeletion', sandboxId, { accountId: row.accountId, sandboxId, forget: false });
    await tx.flush();
    return true;
  }
}

export type TerminatedWorkflowActivities = ReturnType<typeof createTerminatedWorkflowActivities>;

/** @param runId null: the last run. A reset terminates a run and begins another. */
async function isTerminated(client: Client, workflowId: string, runId: string | null = null): Promise<boolean> {
  try {
    const last = await client.workflow.getHandle(workflowId).describe();
    return terminated.includes(last.status.name) && (runId === null || last.runId === runId);
  } catch (error) {
    // Temporal has removed it in the meantime.
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The input is passed on as it is stored, encrypted. */
async function startAgain(
  client: Client,
  type: WorkflowType,
  execution: { workflowId: string; runId: string },
): Promise<boolean> {
  const { workflowId, runId } = execution;
  if (!(await isTerminated(client, workflowId, runId))) return false;
  const { workflowService } = client;
  const { workflowNamespace: namespace } = activityInfo();
  const first = await workflowService.getWorkflowExecutionHistory({
    ...{ namespace, execution, maximumPageSize: 1 },
  });
  const begun = first.history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  if (!begun) return false;
  await workflowService.startWorkflowExecution({
    ...{ namespace, workflowId, requestId: `again ${runId}`, identity: 'maintenance' },
    ...{ workflowType: { name: type }, taskQueue: { name: controlTaskQueues[workflowKinds[type].work] } },
    ...{ input: begun.input ?? null, searchAttributes: begun.searchAttributes ?? null, header: begun.header ?? null },
    workflowIdReusePolicy: enums.WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
    // Another worker may have been faster.
    workflowIdConflictPolicy: enums.WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
  });
  return true;
}
