import { type NativeConnection, Worker } from '@temporalio/worker';
import { createSandboxHostActivities, type SpecSources } from '../activities/sandbox-host.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import { hostTaskQueue } from '../domain/task-queues.ts';
import type { SandboxDriver } from '../runtime/driver.ts';
import { createDataConverter } from '../temporal/data-converter.ts';

/** Serves the queue of one host. */
export function createHostWorker(
  deps: {
    connection: NativeConnection;
    namespace: string;
    hostId: string;
    orm: Orm;
    plans: PlanCatalog;
    driver: SandboxDriver;
  } & SpecSources,
): Promise<Worker> {
  return Worker.create({
    connection: deps.connection,
    namespace: deps.namespace,
    taskQueue: hostTaskQueue(deps.hostId),
    activities: createSandboxHostActivities(deps),
    dataConverter: createDataConverter(deps.secrets),
    maxConcurrentActivityTaskExecutions: 200,
    activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 10 },
    // A cancellation reaches work on a host with its next heartbeat.
    maxHeartbeatThrottleInterval: '1s',
    defaultHeartbeatThrottleInterval: '1s',
    shutdownGraceTime: '10s',
  });
}
