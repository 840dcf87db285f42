import { type Client, type IntervalSpec, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';
import { controlTaskQueue } from '../domain/task-queues.ts';
import { type WorkflowType, workflowKinds } from '../domain/workflow-registry.ts';

type Scheduled = 'maintenance' | 'imageCollection' | 'reconciliation';

/** How often each is started. The id of the schedule is that of the workflow. */
const intervals: Readonly<Record<Scheduled & WorkflowType, IntervalSpec>> = {
  maintenance: { every: '1h' },
  imageCollection: { every: '6h' },
  // At 02:30 UTC.
  reconciliation: { every: '1d', offset: '150m' },
};

/**
 * Has the workflows that keep the platform in order started again and again, and once at once when a schedule is new.
 * Every control worker asks for the schedules when it starts; there is one of each.
 */
export async function ensureSchedules(client: Client): Promise<void> {
  for (const type of Object.keys(intervals) as Scheduled[]) await ensureSchedule(client, type);
}

/** One of them. */
export async function ensureSchedule(client: Client, type: Scheduled): Promise<void> {
  const id = workflowKinds[type].workflowId('');
  try {
    await client.schedule.create({
      scheduleId: id,
      spec: { intervals: [intervals[type]] },
      action: { type: 'startWorkflow', workflowType: type, workflowId: id, taskQueue: controlTaskQueue },
      // A round that was missed is made up for by the next.
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10m' },
      state: { triggerImmediately: true },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}
