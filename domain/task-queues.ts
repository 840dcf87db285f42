/**
 * The task queues of control workers, by the work in them: workflows, and activities that need only Postgres, mail or
 * HTTP. Each has its own slots, so that much work of one kind does not delay the others.
 */
export const controlTaskQueues = {
  sandboxes: 'control',
  webhooks: 'control/webhooks',
  /** Imports, builds and removals of images. */
  images: 'control/images',
  money: 'control/money',
  /** Users, their mails, and the upkeep of the platform. */
  upkeep: 'control/upkeep',
} as const;

export type ControlWork = keyof typeof controlTaskQueues;

/**
 * A queue is behind when its oldest task has waited longer, in seconds. A create waits for the tasks of its sandbox. The
 * retries of an account with thousands of failing deliveries may take minutes.
 */
export const behindAfterSeconds: Readonly<Record<ControlWork, number>> = {
  sandboxes: 10,
  webhooks: 600,
  images: 120,
  money: 120,
  upkeep: 120,
};

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
