import { type Client, type IntervalSpec, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';
import { msToNumber } from '@temporalio/common/lib/time.js';
import { controlTaskQueues } from '../domain/task-queues.ts';
import { type WorkflowType, workflowKinds } from '../domain/workflow-registry.ts';

type Scheduled = 'maintenance' | 'imageCollection' | 'reconciliation';

/** The interval of each scheduled workflow. The id of the schedule is the id of the workflow. */
const intervals: Readonly<Record<Scheduled & WorkflowType, IntervalSpec>> = {
  maintenance: { every: '1h' },
  imageCollection: { every: '6h' },
  // At 02:30 UTC.
  reconciliation: { every: '1d', offset: '150m' },
};

/**
 * Creates the schedules of the workflows that maintain the platform. A new schedule also starts its workflow at once.
 * Every control worker calls this when it starts. Each schedule exists once, with the interval of this version.
 */
export async function ensureSchedules(client: Client): Promise<void> {
  for (const type of Object.keys(intervals) as Scheduled[]) await ensureSchedule(client, type);
}

/** Creates one schedule, or gives it the interval and the task queue of this version. */
export async function ensureSchedule(client: Client, type: Scheduled): Promise<void> {
  const { workflowId, work } = workflowKinds[type];
  const id = workflowId('');
  const taskQueue = controlTaskQueues[work];
  try {
    await client.schedule.create({
      scheduleId: id,
      spec: { intervals: [intervals[type]] },
      action: { type: 'startWorkflow', workflowType: type, workflowId: id, taskQueue },
      // Rounds that were missed for longer than this are skipped, because the next round does their work.
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10m' },
      state: { triggerImmediately: true },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    await bringUpToDate(client, id, { interval: intervals[type], taskQueue });
  }
}

/** An earlier version may have made the schedule. Its other fields stay, such as a pause. */
async function bringUpToDate(
  client: Client,
  scheduleId: string,
  { interval, taskQueue }: { interval: IntervalSpec; taskQueue: string },
): Promise<void> {
  const handle = client.schedule.getHandle(scheduleId);
  const [every, offset] = [msToNumber(interval.every), msToNumber(interval.offset ?? 0)];
  const { spec, action } = await handle.describe();
  const [first, ...others] = spec.intervals ?? [];
  const isSpec = others.length === 0 && first?.every === every && (first.offset ?? 0) === offset;
  if (isSpec && action.taskQueue === taskQueue) return;
  await handle.update(({ spec: _, ...schedule }) => ({
    ...schedule,
    spec: { intervals: [interval] },
    action: { ...schedule.action, taskQueue },
  }));
}
