/** The task queue of workflows, and of activities that need only Postgres, mail or HTTP. */
export const controlTaskQueue = 'control';

/**
 * The task queue of activities that end sandboxes of one machine. It has its own slots, so that an end begins at once
 * even if many starts and resumes wait there.
 */
export function hostEndingTaskQueue(hostId: string): string {
  return `host/${hostId}/ending`;
}

/** The task queue of activities that must run on the machine of the sandbox. */
export function hostTaskQueue(hostId: string): string {
  return `host/${hostId}`;
}
