import type { Client } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import { type ControlWork, controlTaskQueues } from '../../domain/task-queues.ts';

/** How long one reading may take. */
const limitMs = 2000;

/** `TASK_QUEUE_TYPE_…` of Temporal's API. */
const taskKinds = { workflow: 1, activity: 2 } as const;

/** The waiting tasks of one kind in one of the control workers' task queues. */
export interface TaskQueueAge {
  work: ControlWork;
  kind: keyof typeof taskKinds;
  /** The age of the oldest waiting task. 0: none waits. */
  oldestSeconds: number;
  /** The number of workers that have asked for such tasks in the last minutes. */
  pollers: number;
}

/**
 * Reads how long tasks wait for a control worker, of any version. Tasks that a worker gets at once are never waiting.
 * @throws when Temporal does not answer in time
 */
export async function readTaskQueueAges({ connection, workflowService, options }: Client): Promise<TaskQueueAge[]> {
  const wanted = (Object.keys(controlTaskQueues) as ControlWork[]).flatMap((work) =>
    (Object.keys(taskKinds) as (keyof typeof taskKinds)[]).map((kind) => ({ work, kind })),
  );
  return connection.withDeadline(Date.now() + limitMs, () =>
    Promise.all(
      wanted.map(async ({ work, kind }) => {
        const { stats, pollers } = await workflowService.describeTaskQueue({
          namespace: options.namespace,
          taskQueue: { name: controlTaskQueues[work] },
          taskQueueType: taskKinds[kind],
          reportStats: true,
        });
        const oldestSeconds = (optionalTsToMs(stats?.approximateBacklogAge) ?? 0) / 1000;
        return { work, kind, oldestSeconds, pollers: pollers?.length ?? 0 };
      }),
    ),
  );
}
