import { expect, test } from '@jest/globals';
import { type HistoryEvent, readableLines } from '../../ops/local-stack/readable-history.ts';
import { workflowQueries } from '../../ops/local-stack/workflow-queries.ts';

const payload = (value: unknown) => ({
  metadata: { encoding: Buffer.from('json/plain').toString('base64') },
  data: Buffer.from(JSON.stringify(value)).toString('base64'),
});
const at = (second: number) => `2026-05-04T14:00:0${second}.123456789Z`;

/** In the forms of the CLI: payload messages in lists, as single values, and in maps. */
const events: HistoryEvent[] = [
  {
    eventId: '1',
    eventTime: at(0),
    eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
    workflowExecutionStartedEventAttributes: {
      workflowType: { name: 'sandbox' },
      input: { payloads: [payload({ sandboxId: 'sbx-1', sealedCredentials: 'c2VjcmV0' })] },
    },
  },
  { eventId: '2', eventTime: at(0), eventType: 'EVENT_TYPE_WORKFLOW_TASK_SCHEDULED' },
  {
    eventId: '3',
    eventTime: at(1),
    eventType: 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED',
    activityTaskScheduledEventAttributes: {
      activityType: { name: 'startSandbox' },
      taskQueue: { name: 'host/host-1' },
      input: { payloads: [payload('sbx-1'), payload('x'.repeat(5000))] },
    },
  },
  {
    eventId: '4',
    eventTime: at(3),
    eventType: 'EVENT_TYPE_ACTIVITY_TASK_COMPLETED',
    activityTaskCompletedEventAttributes: { scheduledEventId: '3', result: { payloads: [payload({ agentPort: 1 })] } },
  },
  {
    eventId: '5',
    eventTime: at(3),
    eventType: 'EVENT_TYPE_MARKER_RECORDED',
    markerRecordedEventAttributes: {
      markerName: 'core_local_activity',
      details: { data: { payloads: [payload({ activity_type: 'recordRunning' })] }, result: { payloads: [] } },
    },
  },
  {
    eventId: '6',
    eventTime: at(3),
    eventType: 'EVENT_TYPE_TIMER_STARTED',
    userMetadata: { summary: payload('timeout') },
    timerStartedEventAttributes: { timerId: '1', startToFireTimeout: '300s' },
  },
  {
    eventId: '7',
    eventTime: at(4),
    eventType: 'EVENT_TYPE_ACTIVITY_TASK_FAILED',
    activityTaskFailedEventAttributes: {
      scheduledEventId: '3',
      failure: { message: 'no\n  room', applicationFailureInfo: { type: 'no_capacity' } },
    },
  },
];

test('a history has one line per event, with results and durations, and without secrets and long values', () => {
  const lines = [...readableLines(events)];
  expect(lines.map((line) => line.replaceAll(/ {2,}/g, ' | '))).toEqual([
    ' | 1 | 2026-05-04 14:00:00.123 | WorkflowExecutionStarted | sandbox | {"sandboxId":"sbx-1","sealedCredentials":"<sealed>"}',
    expect.stringMatching(
      /^ \| 3 \| 2026-05-04 14:00:01\.123 \| ActivityTaskScheduled \| startSandbox on host\/host-1 \| "sbx-1", "x{200}…"$/,
    ),
    ' | 4 | 2026-05-04 14:00:03.123 | ActivityTaskCompleted | startSandbox on host/host-1 after 2.000 s | → {"agentPort":1}',
    ' | 5 | 2026-05-04 14:00:03.123 | MarkerRecorded | recordRunning',
    ' | 6 | 2026-05-04 14:00:03.123 | TimerStarted | 300s (timeout)',
    ' | 7 | 2026-05-04 14:00:04.123 | ActivityTaskFailed | startSandbox on host/host-1 after 3.000 s | ✗ no_capacity: no room',
  ]);
});

test('each list query is one filter, with a time if it needs one', () => {
  const queries = workflowQueries(new Date('2026-05-04T14:00:00Z'));
  expect(new Set(queries.map(({ query }) => query)).size).toBe(queries.length);
  expect(queries.map(({ query }) => query).join()).toContain('CloseTime > "2026-05-04T13:00:00.000Z"');
});
