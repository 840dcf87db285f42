import { ApplicationFailure } from '@temporalio/common';
import {
  ActivityFailure,
  CancellationScope,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
} from '@temporalio/workflow';
import type { ImageImportActivities } from '../../activities/templates/image-import.ts';
import type { ImportJobId } from '../../domain/ids.ts';
import type { ImageImportInput } from '../../domain/workflow-registry.ts';
import { database, outside } from '../activity-profiles.ts';

/** The import was cancelled. The row of the job already says `cancelled`. */
export const importCancelledSignal = defineSignal<[{ jobId: ImportJobId }]>('importCancelled');

const copying = proxyActivities<ImageImportActivities>(outside.imageCopy);
const cleaning = proxyActivities<ImageImportActivities>(outside.registry);
const rows = proxyLocalActivities<ImageImportActivities>(database);

/**
 * Imports an external image: copies it, with retries, and makes its template available. After a cancellation the
 * workflow no longer writes the job, and removes the parts that it has pushed. Workflow id: `job-…`.
 */
export async function imageImport({ jobId, path }: ImageImportInput): Promise<void> {
  const copyScope = new CancellationScope();
  let isCancelled = false;
  setHandler(importCancelledSignal, () => {
    isCancelled = true;
    copyScope.cancel();
  });
  setCurrentDetails('copying the image');
  try {
    const image = await copyScope.run(() => copying.copyImage(jobId));
    const end = await rows.completeImport(jobId, image);
    if (end === 'no_room') await rows.failForRoom(jobId);
    setCurrentDetails(end);
    if (end !== 'completed') await cleaning.discardImport(path);
  } catch (error) {
    // An operator may have cancelled the workflow directly.
    await CancellationScope.nonCancellable(async () => {
      // This has no effect on a job that is already cancelled.
      await rows.failImport(jobId, describeFailure(error));
      await cleaning.discardImport(path);
    });
    // If the worker has died, its attempt ends with a timeout and not as cancelled.
    if (isCancelled || isCancellation(error) || findFailureType(error) === 'import_over') return;
    throw error;
  }
}

function findCause(error: unknown): ApplicationFailure | null {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  return cause instanceof ApplicationFailure ? cause : null;
}

const findFailureType = (error: unknown) => findCause(error)?.type ?? null;

function describeFailure(error: unknown): string {
  if (isCancellation(error)) return 'The import was cancelled by an operator';
  return findCause(error)?.message || 'The image could not be copied in time';
}
