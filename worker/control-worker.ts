import type { WorkerDeploymentVersion } from '@temporalio/common';
import { type ActivityInterceptorsFactory, type NativeConnection, Worker } from '@temporalio/worker';
import { createAccountMailActivities } from '../activities/account-mails.ts';
import { createBillingActivities } from '../activities/billing.ts';
import { createBudgetActivities } from '../activities/budgets.ts';
import { createEmailChangeActivities } from '../activities/email-changes.ts';
import { createHostWatchActivities } from '../activities/host-watch.ts';
import { createImageImportActivities } from '../activities/image-import.ts';
import { createMaintenanceActivities } from '../activities/maintenance.ts';
import { createReconciliationActivities } from '../activities/reconciliation.ts';
import { createRegistryImageActivities } from '../activities/registry-images.ts';
import { createSandboxLifeActivities } from '../activities/sandbox-life.ts';
import { createSandboxPortActivities } from '../activities/sandbox-ports.ts';
import { createTemplateBuildActivities } from '../activities/template-build.ts';
import { createUserDeletionActivities } from '../activities/user-deletion.ts';
import { createWebhookDeliveryActivities } from '../activities/webhook-deliveries.ts';
import { isBilled } from '../config/billing.ts';
import type { PlatformSecrets } from '../config/secrets.ts';
import type { Settings } from '../config/settings.ts';
import type { Orm } from '../db/orm.ts';
import type { PlanCatalog } from '../db/plans.ts';
import type { Retention } from '../db/repositories/retention.ts';
import type { SandboxMove } from '../domain/sandbox-move.ts';
import { controlTaskQueue } from '../domain/task-queues.ts';
import type { Mailer } from '../mail/mailer.ts';
import { PaymentProcessor } from '../payments/processor.ts';
import type { PlatformRegistry } from '../registry/platform-registry.ts';
import { createDataConverter } from '../temporal/data-converter.ts';
import type { WebhookKeys } from '../webhooks/keys.ts';
import type { WebhookSender } from '../webhooks/sender.ts';

/** Runs workflows and the activities that need no host. */
export function createControlWorker(deps: {
  connection: NativeConnection;
  namespace: string;
  orm: Orm;
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
}): Promise<Worker> {
  return Worker.create({
    connection: deps.connection,
    namespace: deps.namespace,
    taskQueue: controlTaskQueue,
    workflowBundle: { codePath: deps.workflowBundle },
    activities: {
      ...createAccountMailActivities(deps),
      ...createBillingActivities({
        ...deps,
        processor: PaymentProcessor.of(deps.settings),
        billed: isBilled(deps.settings),
      }),
      ...createBudgetActivities(deps),
      ...createEmailChangeActivities(deps),
      ...createHostWatchActivities(deps),
      ...createImageImportActivities(deps),
      ...createMaintenanceActivities(deps),
      ...createReconciliationActivities({ ...deps, paymentProcessor: PaymentProcessor.of(deps.settings) }),
      ...createRegistryImageActivities(deps),
      ...createSandboxLifeActivities(deps),
      ...createSandboxPortActivities(deps),
      ...createTemplateBuildActivities(deps),
      ...createUserDeletionActivities(deps),
      ...createWebhookDeliveryActivities(deps),
    },
    ...(deps.version && {
      workerDeploymentOptions: {
        version: deps.version,
        useWorkerVersioning: true,
        defaultVersioningBehavior: 'AUTO_UPGRADE',
      },
    }),
    dataConverter: createDataConverter(deps.secrets),
    ...(deps.activityInterceptor && { interceptors: { activity: [deps.activityInterceptor] } }),
    // They use about 290 MiB: see `config/heap-limits.ts`. Further workflows are replayed when they get a message.
    maxCachedWorkflows: 2000,
    // The watch of each host is one activity that runs while the host exists.
    maxConcurrentActivityTaskExecutions: 2000,
    maxConcurrentWorkflowTaskExecutions: 100,
    workflowTaskPollerBehavior: { type: 'simple-maximum', maximum: 10 },
    shutdownGraceTime: '5s',
    // All workflows share V8 isolates, so that an idle sandbox costs little memory.
    reuseV8Context: true,
  });
}
