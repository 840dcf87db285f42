import type { SandboxId } from '../domain/ids.ts';
import type { SandboxDeletionInput } from '../domain/workflow-registry.ts';
import { cleaningOn, rows } from './sandbox/activities.ts';

/**
 * Terminates or deletes a sandbox that is `failed` or `terminated`. Its own workflow is already closed. The workflow id
 * is `sbx-…/deletion`.
 */
export async function sandboxDeletion({ sandboxId, forget }: SandboxDeletionInput): Promise<void> {
  const remains = await rows.findRemains(sandboxId);
  if (!remains?.over) return;
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
