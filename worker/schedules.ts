import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';
import { controlTaskQueue } from '../domain/task-queues.ts';
import { type WorkflowType, workflowKinds } from '../domain/workflow-registry.ts';

type Scheduled = 'maintenance' | 'imageCollection';

/** How often each is started. The id of the schedule is that of the workflow. */
const intervals: Readonly<Record<Scheduled & WorkflowType, '1h' | '6h'>> = { maintenance: '1h', imageCollection: '6h' };

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
      spec: { intervals: [{ every: intervals[type] }] },
      action: { type: 'startWorkflow', workflowType: type, workflowId: id, taskQueue: controlTaskQueue },
      // A round that was missed is made up for by the next.
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10m' },
      state: { triggerImmediately: true },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}
