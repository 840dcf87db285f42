import { availableParallelism } from 'node:os';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import { type ActivityInterceptorsFactory, type NativeConnection, Worker } from '@temporalio/worker';
import { createEmailChangeActivities } from '../activities/accounts/email-changes.ts';
import { createAccountMailActivities } from '../activities/accounts/mails.ts';
import { createUserDeletionActivities } from '../activities/accounts/user-deletion.ts';
import { createBudgetActivities } from '../activities/billing/budgets.ts';
import { createBillingActivities } from '../activities/billing/periods.ts';
import { createReconciliationActivities } from '../activities/billing/reconciliation.ts';
import { createHostWatchActivities } from '../activities/hosts/host-watch.ts';
import { createSandboxLifeActivities } from '../activities/sandboxes/life.ts';
import { createSandboxPortActivities } from '../activities/sandboxes/ports.ts';
import { createTemplateBuildActivities } from '../activities/templates/build.ts';
import { createImageImportActivities } from '../activities/templates/image-import.ts';
import { createRegistryImageActivities } from '../activities/templates/registry-images.ts';
import { createMaintenanceActivities } from '../activities/upkeep/maintenance.ts';
import { createTerminatedWorkflowActivities } from '../activities/upkeep/terminated-workflows.ts';
import { createWebhookDeliveryActivities } from '../activities/webhooks/deliveries.ts';
import type { PlanCatalog } from '../db/billing/plans.ts';
import type { Orm } from '../db/orm.ts';
import type { Retention } from '../db/upkeep/retention.ts';
import type { SandboxMove } from '../domain/sandboxes/state.ts';
import { type ControlWork, controlTaskQueues } from '../domain/task-queues.ts';
import type { Mailer } from '../integrations/mail/mailer.ts';
import { PaymentProcessor } from '../integrations/payments/processor.ts';
import type { PlatformRegistry } from '../integrations/registry/platform-registry.ts';
import { retryLimits } from '../integrations/webhooks/in-flight.ts';
import type { WebhookKeys } from '../integrations/webhooks/keys.ts';
import type { WebhookSender } from '../integrations/webhooks/sender.ts';
import { isBilled } from '../platform/config/billing.ts';
import type { PlatformSecrets } from '../platform/config/secrets.ts';
import type { Settings } from '../platform/config/settings.ts';
import { createDataConverter } from '../platform/temporal/data-converter.ts';
import { limitAccountSlots } from './account-slots.ts';
import { workersWithSharedIsolate } from './shared-isolate.ts';

interface Slots {
  /** The concurrent activities, and the maximum number of one account. Null: their own limits apply. */
  activities: number;
  accountShare: number | null;
  workflowTasks: number;
  /** The kept workflows. Further ones are replayed when they get a message. */
  cachedWorkflows: number;
  /** Null: any number. */
  activitiesPerSecond: number | null;
}

const any = { activitiesPerSecond: null };
const slotsByWork: Readonly<Record<ControlWork, Slots>> = {
  // The watch of each host is one activity that runs while the host exists. 2,000 cached workflows use about 290 MiB: see
  // `platform/config/heap-limits.ts`.
  sandboxes: { activities: 2000, accountShare: null, workflowTasks: 100, cachedWorkflows: 2000, ...any },
  // The activity has a limit for each account. The rates are limited, because the retries of thousands of deliveries would
  // use all of the processor, also those of Temporal and Postgres. Deliveries sleep long and have short histories.
  // Without a cache, all of their tasks wait in the queue, where accounts take turns.
  webhooks: {
    ...{ activities: retryLimits.total, accountShare: null, workflowTasks: 2, cachedWorkflows: 0 },
    activitiesPerSecond: 5 * availableParallelism(),
  },
  // Copies wait for the turn of their account in their slots.
  images: { activities: 1000, accountShare: null, workflowTasks: 10, cachedWorkflows: 100, ...any },
  money: { activities: 200, accountShare: 50, workflowTasks: 20, cachedWorkflows: 200, ...any },
  upkeep: { activities: 200, accountShare: 50, workflowTasks: 20, cachedWorkflows: 100, ...any },
};

/** Makes a worker for each kind of work. Together they run workflows, and the activities that need no host. */
export function createControlWorkers(deps: {
  connection: NativeConnection;
  namespace: string;
  /** Lives of sandboxes use only this one, so that they wait for no other work's connections to Postgres. */
  orm: Orm;
  /** For all other work. */
  otherOrm: Orm;
  plans: PlanCatalog;
  retention: Retention;
  secrets: PlatformSecrets;
  settings: Settings;
  mailer: Mailer;
  /** Null: not configured. */
  registry: PlatformRegistry | null;
  webhooks: { keys: WebhookKeys; sender: WebhookSender };
  workflowBundle: string;
  /** The version of the worker's workflows, which determines the tasks that it gets. Null: it takes all tasks. */
  version: WorkerDeploymentVersion | null;
  /** Called after each change of a sandbox's status. */
  onMove?: (move: SandboxMove) => void;
  /** Wraps each activity. */
  activityInterceptor?: ActivityInterceptorsFactory;
}): Promise<Worker[]> {
  const ofOthers = { ...deps, orm: deps.otherOrm };
  const processor = PaymentProcessor.of(deps.settings);
  const activities = {
    ...createHostWatchActivities(deps),
    ...createSandboxLifeActivities(deps),
    ...createSandboxPortActivities(deps),
    ...createAccountMailActivities(ofOthers),
    ...createBillingActivities({ ...ofOthers, processor, billed: isBilled(deps.settings) }),
    ...createBudgetActivities(ofOthers),
    ...createEmailChangeActivities(ofOthers),
    ...createImageImportActivities(ofOthers),
    ...createMaintenanceActivities(ofOthers),
    ...createReconciliationActivities({ ...ofOthers, paymentProcessor: processor }),
    ...createRegistryImageActivities(ofOthers),
    ...createTemplateBuildActivities(ofOthers),
    ...createTerminatedWorkflowActivities(ofOthers),
    ...createUserDeletionActivities(ofOthers),
    ...createWebhookDeliveryActivities(ofOthers),
  };
  // Workflows of sandboxes have a thread of their own.
  const others = workersWithSharedIsolate();
  const create = (work: ControlWork) => createWorker(work === 'sandboxes' ? Worker : others, deps, work, activities);
  return Promise.all((Object.keys(controlTaskQueues) as ControlWork[]).map(create));
}

type WorkerDeps = Parameters<typeof createControlWorkers>[0];

/** Each worker has all workflows and activities. The queue decides which of them it gets. */
function createWorker(kind: typeof Worker, deps: WorkerDeps, work: ControlWork, activities: object): Promise<Worker> {
  const { accountShare, ...slots } = slotsByWork[work];
  const interceptors = [
    ...(deps.activityInterceptor ? [deps.activityInterceptor] : []),
    ...(accountShare === null ? [] : [limitAccountSlots(accountShare)]),
  ];
  return kind.create({
    connection: deps.connection,
    namespace: deps.namespace,
    taskQueue: controlTaskQueues[work],
    workflowBundle: { codePath: deps.workflowBundle },
    activities,
    ...(deps.version && {
      workerDeploymentOptions: {
        version: deps.version,
        useWorkerVersioning: true,
        defaultVersioningBehavior: 'AUTO_UPGRADE',
      },
    }),
    dataConverter: createDataConverter(deps.secrets),
    interceptors: { activity: interceptors },
    maxCachedWorkflows: slots.cachedWorkflows,
    maxConcurrentActivityTaskExecutions: slots.activities,
    maxConcurrentWorkflowTaskExecutions: slots.workflowTasks,
    ...(slots.activitiesPerSecond !== null && { maxActivitiesPerSecond: slots.activitiesPerSecond }),
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: Math.min(10, slots.workflowTasks) },
    shutdownGraceTime: '5s',
    // All workflows share V8 isolates, so that an idle sandbox costs little memory.
    reuseV8Context: true,
  });
}
