import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';
import { controlTaskQueue } from '../domain/task-queues.ts';
import { type WorkflowType, workflowKinds } from '../domain/workflow-registry.ts';

const scheduleId = 'maintenance';

/**
 * Has the workflow `maintenance` started each hour, and immediately when the schedule is new. Every control worker
 * calls this at its start; there is one schedule.
 */
export async function ensureMaintenanceSchedule(client: Client): Promise<void> {
  try {
    await client.schedule.create({
      scheduleId,
      spec: { intervals: [{ every: '1h' }] },
      action: {
        type: 'startWorkflow',
        workflowType: 'maintenance' satisfies WorkflowType,
        workflowId: workflowKinds.maintenance.workflowId(''),
        taskQueue: controlTaskQueue,
      },
      // A round that was missed is made up for by the next.
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '10m' },
      state: { triggerImmediately: true },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}
