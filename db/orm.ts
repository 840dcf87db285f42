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
import { migrations } from './migrations/index.ts';
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
  // `?host=/folder` of a URL names the folder of a Unix socket. MikroORM ignores it.
  const socketDir = URL.parse(databaseUrl)?.searchParams.get('host');
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
      ...(socketDir && { host: socketDir }),
      keepAlive: true,
      connectionTimeoutMillis: poolWaitMs,
      onPoolCreated: (created: Pool) => {
        pool = created;
        reclaimLostConnections(created);
        if (limits) limitSessions(created, limits);
      },
    },
    extensions: [Migrator],
    // Progress of migrations is for people; the result on standard output is for programs.
    logger: (line) => console.error(line),
    colors: false,
    migrations: {
      tableName: 'platform_migrations',
      snapshot: false,
      migrationsList: migrations,
    },
    discovery: { warnWhenNoEntities: false },
    implicitTransactions: true,
    // All times in the database are UTC, regardless of this machine's time zone.
    forceUtcTimezone: true,
  });
  poolsByOrm.set(orm, () => pool);
  return orm;
}

const poolsByOrm = new WeakMap<Orm, () => Pool | null>();

/** The numbers of a process's connections, of idle ones, and of calls that wait for one. */
export function poolCounts(...orms: Orm[]): { total: number; idle: number; waiting: number } {
  const pools = orms.map((orm) => poolsByOrm.get(orm)?.());
  const sum = (count: 'totalCount' | 'idleCount' | 'waitingCount') =>
    pools.reduce((before, pool) => before + (pool?.[count] ?? 0), 0);
  return { total: sum('totalCount'), idle: sum('idleCount'), waiting: sum('waitingCount') };
}
