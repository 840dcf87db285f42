/** Workflows, and the activities that need only Postgres, mail or HTTP. */
export const controlTaskQueue = 'control';

/** Activities that must run on one machine: the one that has the sandbox. */
export function hostTaskQueue(hostId: string): string {
  return `host/${hostId}`;
}
