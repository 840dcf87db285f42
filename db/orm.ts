import { Migrator } from '@mikro-orm/migrations';
import { MikroORM } from '@mikro-orm/postgresql';
import type { Pool } from 'pg';
import { Account } from './accounts/account.entity.ts';
import { ApiKey } from './accounts/api-key.entity.ts';
import { IdempotencyKey } from './accounts/idempotency-key.entity.ts';
import { Notification } from './accounts/notification.entity.ts';
import { Project } from './accounts/project.entity.ts';
import { User } from './accounts/user.entity.ts';
import { PaymentMethod } from './billing/payment-method.entity.ts';
import { Event } from './core/event.entity.ts';
import { OutboxEntry } from './core/outbox-entry.entity.ts';
import { ReticentDriver } from './core/reticent-driver.ts';
import { limitSessions, reclaimLostConnections, type SessionLimits } from './core/session-pool.ts';
import { Host } from './hosts/host.entity.ts';
import { Migration20261121Foundation } from './migrations/20261121-foundation.ts';
import { Migration20261122DirectMounts } from './migrations/20261122-direct-mounts.ts';
import { Migration20261122HostLeases } from './migrations/20261122-host-leases.ts';
import { Migration20261122Metrics } from './migrations/20261122-metrics.ts';
import { Migration20261122MetricsQuarters } from './migrations/20261122-metrics-quarters.ts';
import { Migration20261122NearestRegions } from './migrations/20261122-nearest-regions.ts';
import { Migration20261122ObjectStorage } from './migrations/20261122-object-storage.ts';
import { Migration20261122Ports } from './migrations/20261122-ports.ts';
import { Migration20261122SandboxRuns } from './migrations/20261122-sandbox-runs.ts';
import { Migration20261123FullDisks } from './migrations/20261123-full-disks.ts';
import { Migration20261124Retention } from './migrations/20261124-retention.ts';
import { Migration20261124UnreadNotifications } from './migrations/20261124-unread-notifications.ts';
import { Migration20261125MeasuredRoom } from './migrations/20261125-measured-room.ts';
import { Migration20261126OutboxAndEvents } from './migrations/20261126-outbox-and-events.ts';
import { Migration20261127Quotas } from './migrations/20261127-quotas.ts';
import { Migration20261128SignIn } from './migrations/20261128-sign-in.ts';
import { Migration20261129Users } from './migrations/20261129-users.ts';
import { Migration20261130UserDeletion } from './migrations/20261130-user-deletion.ts';
import { Migration20261201EmailChanges } from './migrations/20261201-email-changes.ts';
import { Migration20261202AuditEvents } from './migrations/20261202-audit-events.ts';
import { Migration20261210AuditOfEveryone } from './migrations/20261210-audit-of-everyone.ts';
import { Migration20261211QuickSignIn } from './migrations/20261211-quick-sign-in.ts';
import { Migration20261212Identities } from './migrations/20261212-identities.ts';
import { Migration20261212Templates } from './migrations/20261212-templates.ts';
import { Migration20261212Webhooks } from './migrations/20261212-webhooks.ts';
import { Migration20261213RegistryImages } from './migrations/20261213-registry-images.ts';
import { Migration20261214TemplateBuilds } from './migrations/20261214-template-builds.ts';
import { Migration20261214WarmPools } from './migrations/20261214-warm-pools.ts';
import { Migration20261215SandboxNetworks } from './migrations/20261215-sandbox-networks.ts';
import { Migration20261215WatchedRuns } from './migrations/20261215-watched-runs.ts';
import { Migration20261216Usage } from './migrations/20261216-usage.ts';
import { Migration20261216UsageMeasured } from './migrations/20261216-usage-measured.ts';
import { Migration20261217Ledger } from './migrations/20261217-ledger.ts';
import { Migration20261217Payments } from './migrations/20261217-payments.ts';
import { Migration20261218CountedSignIns } from './migrations/20261218-counted-sign-ins.ts';
import { Migration20261219Subscriptions } from './migrations/20261219-subscriptions.ts';
import { Migration20261220Budgets } from './migrations/20261220-budgets.ts';
import { Migration20261220Reconciliation } from './migrations/20261220-reconciliation.ts';
import { Migration20261220UsageRetention } from './migrations/20261220-usage-retention.ts';
import { Migration20261221PaymentRefunds } from './migrations/20261221-payment-refunds.ts';
import { Migration20261223BuiltinImages } from './migrations/20261223-builtin-images.ts';
import { Migration20261224HostDraining } from './migrations/20261224-host-draining.ts';
import { Migration20261225LateUsage } from './migrations/20261225-late-usage.ts';
import { Migration20261227LastHop } from './migrations/20261227-last-hop.ts';
import { Migration20261228UsageRollUpPlan } from './migrations/20261228-usage-roll-up-plan.ts';
import { Migration20270114ImageCommands } from './migrations/20270114-image-commands.ts';
import { Migration20270114MeasuredImages } from './migrations/20270114-measured-images.ts';
import { Migration20270116FailedCharges } from './migrations/20270116-failed-charges.ts';
import { Migration20270118StartQueues } from './migrations/20270118-start-queues.ts';
import { Migration20270120SecretKeys } from './migrations/20270120-secret-keys.ts';
import { Migration20270122AccountQuotas } from './migrations/20270122-account-quotas.ts';
import { Migration20270122UsagePricePeriods } from './migrations/20270122-usage-price-periods.ts';
import { Migration20270124DiskRates } from './migrations/20270124-disk-rates.ts';
import { Sandbox } from './sandboxes/sandbox.entity.ts';
import { ImportJob } from './templates/import-job.entity.ts';
import { Template } from './templates/template.entity.ts';
import { QuotaAllocation } from './usage/quota-allocation.entity.ts';
import { QuotaRequest } from './usage/quota-request.entity.ts';
import { WebhookEndpoint } from './webhooks/webhook-endpoint.entity.ts';

export type Orm = MikroORM;

const servingLimits: SessionLimits = { statementMs: 30_000, lockMs: 10_000, idleInTransactionMs: 15_000 };
/** How long a request waits for a connection of the pool. */
const poolWaitMs = 10_000;

/**
 * Connects to Postgres. Make one per process. Each request and each activity uses a fork of its entity manager.
 * @param poolSize the maximum number of connections
 * @param limits null: none, for migrations
 */
export async function createOrm(
  databaseUrl: string,
  poolSize = 10,
  limits: SessionLimits | null = servingLimits,
): Promise<Orm> {
  let pool: Pool | null = null;
  const orm = await MikroORM.init({
    clientUrl: databaseUrl,
    driver: ReticentDriver,
    entities: [
      Account,
      ApiKey,
      Event,
      Host,
      IdempotencyKey,
      ImportJob,
      Notification,
      OutboxEntry,
      PaymentMethod,
      Project,
      QuotaAllocation,
      QuotaRequest,
      Sandbox,
      Template,
      User,
      WebhookEndpoint,
    ],
    pool: { min: 0, max: poolSize },
    driverOptions: {
      keepAlive: true,
      connectionTimeoutMillis: poolWaitMs,
      onPoolCreated: (created: Pool) => {
        pool = created;
        reclaimLostConnections(created);
        if (limits) limitSessions(created, limits);
      },
    },
    extensions: [Migrator],
    migrations: {
      tableName: 'platform_migrations',
      snapshot: false,
      // In the order of their names, which is the order of execution.
      migrationsList: [
        { name: '20261121-foundation', class: Migration20261121Foundation },
        { name: '20261122-direct-mounts', class: Migration20261122DirectMounts },
        { name: '20261122-host-leases', class: Migration20261122HostLeases },
        { name: '20261122-metrics', class: Migration20261122Metrics },
        { name: '20261122-metrics-quarters', class: Migration20261122MetricsQuarters },
        { name: '20261122-nearest-regions', class: Migration20261122NearestRegions },
        { name: '20261122-object-storage', class: Migration20261122ObjectStorage },
        { name: '20261122-ports', class: Migration20261122Ports },
        { name: '20261122-sandbox-runs', class: Migration20261122SandboxRuns },
        { name: '20261123-full-disks', class: Migration20261123FullDisks },
        { name: '20261124-retention', class: Migration20261124Retention },
        { name: '20261124-unread-notifications', class: Migration20261124UnreadNotifications },
        { name: '20261125-measured-room', class: Migration20261125MeasuredRoom },
        { name: '20261126-outbox-and-events', class: Migration20261126OutboxAndEvents },
        { name: '20261127-quotas', class: Migration20261127Quotas },
        { name: '20261128-sign-in', class: Migration20261128SignIn },
        { name: '20261129-users', class: Migration20261129Users },
        { name: '20261130-user-deletion', class: Migration20261130UserDeletion },
        { name: '20261201-email-changes', class: Migration20261201EmailChanges },
        { name: '20261202-audit-events', class: Migration20261202AuditEvents },
        { name: '20261210-audit-of-everyone', class: Migration20261210AuditOfEveryone },
        { name: '20261211-quick-sign-in', class: Migration20261211QuickSignIn },
        { name: '20261212-identities', class: Migration20261212Identities },
        { name: '20261212-templates', class: Migration20261212Templates },
        { name: '20261212-webhooks', class: Migration20261212Webhooks },
        { name: '20261213-registry-images', class: Migration20261213RegistryImages },
        { name: '20261214-template-builds', class: Migration20261214TemplateBuilds },
        { name: '20261214-warm-pools', class: Migration20261214WarmPools },
        { name: '20261215-sandbox-networks', class: Migration20261215SandboxNetworks },
        { name: '20261215-watched-runs', class: Migration20261215WatchedRuns },
        { name: '20261216-usage', class: Migration20261216Usage },
        { name: '20261216-usage-measured', class: Migration20261216UsageMeasured },
        { name: '20261217-ledger', class: Migration20261217Ledger },
        { name: '20261217-payments', class: Migration20261217Payments },
        { name: '20261218-counted-sign-ins', class: Migration20261218CountedSignIns },
        { name: '20261219-subscriptions', class: Migration20261219Subscriptions },
        { name: '20261220-budgets', class: Migration20261220Budgets },
        { name: '20261220-reconciliation', class: Migration20261220Reconciliation },
        { name: '20261220-usage-retention', class: Migration20261220UsageRetention },
        { name: '20261221-payment-refunds', class: Migration20261221PaymentRefunds },
        { name: '20261223-builtin-images', class: Migration20261223BuiltinImages },
        { name: '20261224-host-draining', class: Migration20261224HostDraining },
        { name: '20261225-late-usage', class: Migration20261225LateUsage },
        { name: '20261227-last-hop', class: Migration20261227LastHop },
        { name: '20261228-usage-roll-up-plan', class: Migration20261228UsageRollUpPlan },
        { name: '20270114-image-commands', class: Migration20270114ImageCommands },
        { name: '20270114-measured-images', class: Migration20270114MeasuredImages },
        { name: '20270116-failed-charges', class: Migration20270116FailedCharges },
        { name: '20270118-start-queues', class: Migration20270118StartQueues },
        { name: '20270120-secret-keys', class: Migration20270120SecretKeys },
        { name: '20270122-account-quotas', class: Migration20270122AccountQuotas },
        { name: '20270122-usage-price-periods', class: Migration20270122UsagePricePeriods },
        { name: '20270124-disk-rates', class: Migration20270124DiskRates },
      ],
    },
    discovery: { warnWhenNoEntities: false },
    implicitTransactions: true,
    // All times in the database are UTC, regardless of this machine's time zone.
    forceUtcTimezone: true,
  });
  poolsOf.set(orm, () => pool);
  return orm;
}

const poolsOf = new WeakMap<Orm, () => Pool | null>();

/** The numbers of a process's connections, of idle ones, and of calls that wait for one. */
export function poolCounts(...orms: Orm[]): { total: number; idle: number; waiting: number } {
  const pools = orms.map((orm) => poolsOf.get(orm)?.());
  const sum = (count: 'totalCount' | 'idleCount' | 'waitingCount') =>
    pools.reduce((before, pool) => before + (pool?.[count] ?? 0), 0);
  return { total: sum('totalCount'), idle: sum('idleCount'), waiting: sum('waitingCount') };
}
