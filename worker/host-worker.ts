import { type ActivityInterceptorsFactory, type NativeConnection, Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { AccountShares } from '../activities/account-shares.ts';
import { type ObserveDirectWork, SandboxMoves } from '../activities/sandboxes/moves.ts';
import { createSandboxHostActivities } from '../activities/sandboxes/on-host.ts';
import type { SpecSources } from '../activities/sandboxes/spec.ts';
import { SandboxStarts } from '../activities/sandboxes/starts.ts';
import { createTemplateBuildHostActivities } from '../activities/templates/build.ts';
import { createDiskCopyHostActivities } from '../activities/templates/disk-copy.ts';
import type { PlanCatalog } from '../db/billing/plans.ts';
import type { Orm } from '../db/orm.ts';
import { DirectMoves } from '../db/sandboxes/direct-moves.ts';
import { SandboxLifeRepository } from '../db/sandboxes/sandbox-life.ts';
import type { SandboxMove, SandboxSubstatus } from '../domain/sandboxes/state.ts';
import { hostEndingTaskQueue, hostTaskQueue } from '../domain/task-queues.ts';
import type { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import { createDataConverter } from '../platform/temporal/data-converter.ts';
import type { SandboxDriver } from '../runtime/driver.ts';

/** The number of concurrent activities, most of which only wait, and the share of one account. */
const defaultSlots = { slots: 200, accountShare: 50 };
const endingSlots = 100;

/**
 * Serves the queues of one host. Work that ends sandboxes has a separate queue with separate slots: it needs no
 * response from inside a sandbox, and must not wait for work that does.
 */
export async function createHostWorkers(
  deps: {
    connection: NativeConnection;
    namespace: string;
    hostId: string;
    orm: Orm;
    plans: PlanCatalog;
    driver: SandboxDriver;
    /** Null: the settings have no registry. */
    registry: PlatformRegistry | null;
    slots?: number;
    accountShare?: number;
    /** Called after each change of a sandbox's status. */
    onMove?: (move: SandboxMove) => void;
    /** Called with the duration of each step of a start. */
    onStep?: (step: SandboxSubstatus, ms: number) => void;
    /** Wraps each activity. */
    activityInterceptor?: ActivityInterceptorsFactory;
    observeDirectWork?: ObserveDirectWork;
    logger: Logger;
  } & SpecSources,
): Promise<{ workers: Worker[]; starts: SandboxStarts; moves: SandboxMoves }> {
  const { slots, accountShare } = { ...defaultSlots, ...deps };
  const shares = new AccountShares(accountShare);
  const life = new SandboxLifeRepository(deps.orm.em, deps.plans, deps.onMove);
  const directMoves = new DirectMoves(deps.orm.em, deps.plans, deps.onMove);
  const observeDirectWork: ObserveDirectWork = deps.observeDirectWork ?? ((_work, run) => run());
  const direct = { ...deps, shares, moves: directMoves, observeDirectWork };
  const starts = new SandboxStarts({ ...direct, life });
  const moves = new SandboxMoves(direct);
  const ofSandboxes = createSandboxHostActivities({ ...deps, life, starts, moves, shares });
  const { stopSandbox, removeSandbox, ...activities } = ofSandboxes;
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
  const workers = await Promise.all([
    Worker.create({
      ...common,
      taskQueue: hostTaskQueue(deps.hostId),
      activities: {
        ...activities,
        ...createTemplateBuildHostActivities(deps),
        ...createDiskCopyHostActivities(deps),
      },
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
  return { workers, starts, moves };
}
