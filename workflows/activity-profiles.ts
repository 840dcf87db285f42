import type { ActivityOptions, LocalActivityOptions } from '@temporalio/workflow';
import { controlTaskQueues, hostEndingTaskQueue, hostTaskQueue } from '../domain/task-queues.ts';

/**
 * Timeouts, retries and the task queue of each kind of activity. A workflow passes one of these profiles when it
 * proxies its activities, and sets no option of its own.
 */

/** Local activities on rows. Retried until they succeed: an outage of Postgres must not end a workflow. */
export const database: LocalActivityOptions = {
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '10s' },
};

/** Long statements of one round of upkeep. Retried until shortly before the next round. */
export const upkeep: ActivityOptions = {
  startToCloseTimeout: '10m',
  scheduleToCloseTimeout: '50m',
  retry: { initialInterval: '5s', maximumInterval: '5m' },
};

/**
 * Activities that wait for a change for as long as it takes. A missing heartbeat moves them to another worker. The lease
 * in Postgres decides about a host, and a new watch gives hosts a minute, so heartbeats need not be frequent. The SDK
 * sends one in four fifths of the timeout, and Temporal Cloud bills each.
 */
export const watch: ActivityOptions = {
  startToCloseTimeout: '3650 days',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '500ms', maximumInterval: '2s' },
};

/** Calls of the host that has the sandbox. `scheduleToStartTimeout` shows that a host is away. */
export const onHost = {
  /**
   * A start may pull an image, so its timeout is long. A missing heartbeat shows that the host died. Most of the
   * attempts are for accounts that already use their share of the host. For other errors the host makes the failure
   * final after fewer attempts.
   */
  starting: (hostId: string): ActivityOptions => ({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '20s',
    startToCloseTimeout: '20m',
    heartbeatTimeout: '10s',
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: { initialInterval: '500ms', maximumInterval: '10s', maximumAttempts: 30 },
  }),

  /** A pause takes milliseconds. A pause that takes much longer has failed. */
  pausing: (hostId: string): ActivityOptions => ({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '20s',
    startToCloseTimeout: '30s',
    // Long enough for a killed host worker to restart.
    scheduleToCloseTimeout: '60s',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '5s' },
  }),

  /** The time is limited, because a host that is away cleans up when it is back and reconciles. */
  cleaning: (hostId: string): ActivityOptions => ({
    taskQueue: hostEndingTaskQueue(hostId),
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: '60s',
    scheduleToCloseTimeout: '3m',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '10s' },
  }),

  /**
   * Copying, packing and pushing may take long. A missing heartbeat shows that the host worker died. Its finished work
   * is on the disk, and the next attempt continues from there.
   */
  building: (hostId: string): ActivityOptions => ({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '2m',
    startToCloseTimeout: '1h',
    scheduleToCloseTimeout: '3h',
    heartbeatTimeout: '10s',
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: { initialInterval: '1s', maximumInterval: '1m' },
  }),

  /** Removes the files of a finished build. A host that is away removes them when it is back. */
  discarding: (hostId: string): ActivityOptions => ({
    taskQueue: hostTaskQueue(hostId),
    startToCloseTimeout: '2m',
    scheduleToCloseTimeout: '10m',
    retry: { initialInterval: '1s', maximumInterval: '1m' },
  }),

  exposingPorts: (hostId: string): ActivityOptions => ({
    taskQueue: hostTaskQueue(hostId),
    scheduleToStartTimeout: '10s',
    startToCloseTimeout: '10s',
    retry: { maximumAttempts: 2 },
  }),
};

type OutsideKind =
  | 'imageCopy'
  | 'registry'
  | 'money'
  | 'records'
  | 'mail'
  | 'mailWithLink'
  | 'webhook'
  | 'webhookCancel';

/** Calls of services outside the platform. */
export const outside: Readonly<Record<OutsideKind, ActivityOptions>> = {
  /**
   * Copies an image between registries. Sends its progress as heartbeats, and the next attempt continues from there.
   */
  imageCopy: {
    taskQueue: controlTaskQueues.images,
    startToCloseTimeout: '1h',
    heartbeatTimeout: '20s',
    cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    retry: { initialInterval: '10s', backoffCoefficient: 6, maximumInterval: '5m', maximumAttempts: 4 },
  },
  /**
   * Small requests to the platform's registry, at most for twenty images one after the other. The activity fails after a
   * day of attempts.
   */
  registry: {
    taskQueue: controlTaskQueues.images,
    startToCloseTimeout: '30m',
    scheduleToCloseTimeout: '1 day',
    retry: { initialInterval: '2s', maximumInterval: '10m' },
  },
  /**
   * Calls the payment processor. The attempts never end, because a charge with an unknown outcome must be queried until
   * it is known. The activity is idempotent by an id that is stored before the first attempt. A customer waits for the
   * plan, so a missing heartbeat moves the activity to another worker. The timeout is longer than all of an activity's
   * calls together.
   */
  money: {
    taskQueue: controlTaskQueues.money,
    startToCloseTimeout: '5m',
    heartbeatTimeout: '10s',
    retry: { initialInterval: '2s', maximumInterval: '10m' },
  },
  /** Reads many pages of records from the payment processor. The attempts end before the next night. */
  records: {
    taskQueue: controlTaskQueues.money,
    startToCloseTimeout: '10m',
    scheduleToCloseTimeout: '20h',
    heartbeatTimeout: '1m',
    retry: { initialInterval: '5s', maximumInterval: '10m' },
  },
  /**
   * Sends one mail. Each attempt has the same Message-ID. The attempts end after two days. The timeout allows a
   * server that takes its time for each step of the conversation.
   */
  mail: {
    taskQueue: controlTaskQueues.upkeep,
    startToCloseTimeout: '6m',
    scheduleToCloseTimeout: '2 days',
    retry: { initialInterval: '10s', maximumInterval: '1h' },
  },
  /** As `mail`, for a link that works for 30 minutes. The attempts end early, because an expired link is useless. */
  mailWithLink: {
    taskQueue: controlTaskQueues.upkeep,
    startToCloseTimeout: '6m',
    scheduleToCloseTimeout: '30m',
    retry: { initialInterval: '2s', maximumInterval: '2m' },
  },
  /**
   * All requests of a delivery to a webhook endpoint. A failed request is an error with the time until the next one. The
   * interval is for the other errors: the worker died, or the database is away.
   */
  webhook: {
    taskQueue: controlTaskQueues.webhooks,
    startToCloseTimeout: '6m',
    heartbeatTimeout: '10s',
    retry: { initialInterval: '10s', backoffCoefficient: 1, maximumInterval: '2d' },
  },
  /** The record of a cancelled delivery. Retried while the database is away. */
  webhookCancel: {
    taskQueue: controlTaskQueues.webhooks,
    startToCloseTimeout: '1m',
    retry: { initialInterval: '1s', maximumInterval: '1m' },
  },
};
