/** Workflows, and the activities that need only Postgres, mail or HTTP. */
export const controlTaskQueue = 'control';

/**
 * Activities that end sandboxes of one machine. They have slots of their own, so that an end starts at once however many
 * starts and resumes wait there.
 */
export function hostEndingTaskQueue(hostId: string): string {
  return `host/${hostId}/ending`;
}

/** Activities that must run on one machine: the one that has the sandbox. */
export function hostTaskQueue(hostId: string): string {
  return `host/${hostId}`;
}
