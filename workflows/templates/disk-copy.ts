import { proxyActivities } from '@temporalio/workflow';
import type { DiskCopyHostActivities } from '../../activities/templates/disk-copy.ts';
import type { DiskCopyInput, DiskCopyResult } from '../../domain/workflow-registry.ts';
import { onHost } from '../activity-profiles.ts';

/**
 * Copies the disk of a sandbox on its host for a backup. The sandbox is frozen only during its own copy. The backup
 * takes the copy away. Workflow id: the id of the copy.
 */
export async function diskCopy({ copyId, sandboxId, hostId }: DiskCopyInput): Promise<DiskCopyResult | null> {
  return proxyActivities<DiskCopyHostActivities>(onHost.building(hostId)).copyDisk(copyId, sandboxId);
}
