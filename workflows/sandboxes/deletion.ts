import { proxyActivities } from '@temporalio/workflow';
import type { SandboxRemains } from '../../activities/sandboxes/life.ts';
import type { TerminatedWorkflowActivities } from '../../activities/upkeep/terminated-workflows.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxDeletionInput } from '../../domain/workflow-registry.ts';
import { upkeep } from '../activity-profiles.ts';
import { cleaningOn, rows } from './life/activities.ts';

const workflows = proxyActivities<Pick<TerminatedWorkflowActivities, 'isOrphan'>>(upkeep);

/**
 * Terminates or deletes a sandbox that is `failed` or `terminated`. Its own workflow is already closed. A sandbox whose
 * workflow was terminated before the sandbox ended becomes `failed`. The workflow id is `sbx-…/deletion`.
 */
export async function sandboxDeletion({ sandboxId, forget }: SandboxDeletionInput): Promise<void> {
  const remains = await rows.findRemains(sandboxId);
  if (!remains) return;
  if (!remains.over) {
    if (!(await workflows.isOrphan(sandboxId))) return;
    await endOrphan(sandboxId, remains);
    if (!forget) return;
  }
  if (remains.status === 'failed') {
    await rows.recordTerminating(sandboxId, 'user_requested');
    await rows.recordTerminated(
      sandboxId,
      'failed',
      Date.now(),
      !remains.held || (await clean(sandboxId, remains.hostId)),
    );
  }
  if (forget) await rows.recordForgotten(sandboxId, Date.now());
}

/** Ends a sandbox whose own workflow cannot do it any more. */
async function endOrphan(sandboxId: SandboxId, { status, hostId }: SandboxRemains): Promise<void> {
  if (status === 'terminating') {
    await rows.recordTerminated(sandboxId, 'completed', Date.now(), await clean(sandboxId, hostId));
    return;
  }
  const message = 'The workflow of the sandbox was terminated';
  await rows.recordFailed(
    sandboxId,
    'ended_by_operator',
    { message, exitCode: null, outOfMemory: false, commandOutput: '' },
    Date.now(),
  );
  if (!(await clean(sandboxId, hostId))) return;
  await rows.recordStopped(sandboxId, Date.now());
  await rows.recordCleaned(sandboxId);
}

async function clean(sandboxId: SandboxId, hostId: string): Promise<boolean> {
  try {
    await cleaningOn(hostId).stopSandbox(sandboxId);
    await cleaningOn(hostId).removeSandbox(sandboxId);
    return true;
  } catch {
    // The host is away; it cleans up when it is back and reconciles.
    return false;
  }
}
