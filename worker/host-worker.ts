import { type ActivityInterceptorsFactory, type NativeConnection, Worker } from '@temporalio/worker';
import { createSandboxHostActivities } from '../activities/sandbox-host.ts';
import type { SpecSources } from '../activities/sandbox-spec.ts';
import { createTemplateBuildHostActivities } from '../activities/template-build.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import type { SandboxMove } from '../domain/sandbox-move.ts';
import type { SandboxSubstatus } from '../domain/sandbox-state.ts';
import { hostEndingTaskQueue, hostTaskQueue } from '../domain/task-queues.ts';
import type { PlatformRegistry } from '../registry/platform-registry.ts';
import type { SandboxDriver } from '../runtime/driver.ts';
import { createDataConverter } from '../temporal/data-converter.ts';

/** Activities at once, most of which wait rather than work, and the share of one account. */
const defaultSlots = { slots: 200, accountShare: 50 };
const endingSlots = 100;

/**
 * Serves the queues of one host. Work that ends sandboxes has a queue and slots of its own: it needs nothing from the
 * inside of a sandbox, and must not wait for work that does.
 */
export function createHostWorkers(
  deps: {
    connection: NativeConnection;
    namespace: string;
    hostId: string;
    orm: Orm;
    plans: PlanCatalog;
    driver: SandboxDriver;
    /** Null: the settings name none. */
    registry: PlatformRegistry | null;
    slots?: number;
    accountShare?: number;
    /** Called after each change of a sandbox's status. */
    onMove?: (move: SandboxMove) => void;
    /** Called with how long each step of a start took. */
    onStep?: (step: SandboxSubstatus, ms: number) => void;
    /** Around each activity. */
    activityInterceptor?: ActivityInterceptorsFactory;
  } & SpecSources,
): Promise<Worker[]> {
  const { slots, accountShare } = { ...defaultSlots, ...deps };
  const activities = createSandboxHostActivities({ ...deps, accountShare });
  const { stopSandbox, removeSandbox } = activities;
  const common = {
    connection: deps.connection,
    namespace: deps.namespace,
    dataConverter: createDataConverter(deps.secrets),
    ...(deps.activityInterceptor && { interceptors: { activity: [deps.activityInterceptor] } }),
    // A cancellation reaches work on a host with its next heartbeat.
    maxHeartbeatThrottleInterval: '500ms',
    defaultHeartbeatThrottleInterval: '500ms',
    shutdownGraceTime: '10s',
  } as const;
  return Promise.all([
    Worker.create({
      ...common,
      taskQueue: hostTaskQueue(deps.hostId),
      // Ends too: those that an earlier version of the workflows put here.
      activities: { ...activities, ...createTemplateBuildHostActivities(deps) },
      maxConcurrentActivityTaskExecutions: slots,
      activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 10 },
    }),
    Worker.create({
      ...common,
      taskQueue: hostEndingTaskQueue(deps.hostId),
      activities: { stopSandbox, removeSandbox },
      maxConcurrentActivityTaskExecutions: endingSlots,
      activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 5 },
    }),
  ]);
}
