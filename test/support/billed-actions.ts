/** The events that Temporal Cloud bills as an action each. */
const billed = [
  ...['workflowExecutionStarted', 'workflowExecutionSignaled', 'workflowExecutionUpdateAccepted', 'timerStarted'],
  ...['activityTaskStarted', 'markerRecorded', 'upsertWorkflowSearchAttributes'],
];

export const actionsIn = (events: object[]) =>
  events.filter((event) => billed.some((name) => Boolean((event as Record<string, unknown>)[`${name}EventAttributes`])))
    .length;
