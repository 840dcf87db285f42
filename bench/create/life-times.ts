import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';

const type = proto.temporal.api.enums.v1.EventType;

/** The times of a create's parts that a workflow's history contains, in Unix milliseconds. */
export interface LifeTimes {
  /** Temporal has stored the start. */
  started: number;
  /** The control worker has its first task. */
  firstTask: number;
  /** The host's work was put on its queue, and taken from it. */
  hostWorkAsked: number;
  hostWorkBegun: number;
  /** Temporal has stored the completion of the host's work. */
  hostWorkDone: number;
  /** The control worker has the next task. */
  lastTask: number;
  /** Temporal has stored the reply to the caller. */
  answered: number;
}

export async function readLifeTimes(client: Client, namespace: string, workflowId: string): Promise<LifeTimes> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace,
    execution: { workflowId },
  });
  const events = history!.events!;
  const at = (wanted: proto.temporal.api.enums.v1.EventType, from = 0) => {
    const time = events.slice(from).find((event) => event.eventType === wanted)?.eventTime;
    if (!time) throw new Error(`the history of ${workflowId} has no ${type[wanted]}`);
    return Number(time.seconds) * 1000 + (time.nanos ?? 0) / 1e6;
  };
  const done = events.findIndex((event) => event.eventType === type.EVENT_TYPE_ACTIVITY_TASK_COMPLETED);
  return {
    started: at(type.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED),
    firstTask: at(type.EVENT_TYPE_WORKFLOW_TASK_STARTED),
    hostWorkAsked: at(type.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED),
    hostWorkBegun: at(type.EVENT_TYPE_ACTIVITY_TASK_STARTED),
    hostWorkDone: at(type.EVENT_TYPE_ACTIVITY_TASK_COMPLETED),
    lastTask: at(type.EVENT_TYPE_WORKFLOW_TASK_STARTED, done),
    answered: at(type.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED),
  };
}
