import type { EntityManager } from '@mikro-orm/postgresql';
import { countRefusedUsage, readReconciliationState } from '../billing/reconciliations.ts';
import { countEntries } from '../core/outbox.ts';
import { query } from '../core/query.ts';

/** Counts for operators, over all accounts. Each statement reads an index that contains only unfinished rows. */
export async function readPlatformFigures(em: EntityManager) {
  const [sandboxes, hosts, entries, oldest, due, endpoints, jobs, reconciliation, usageRefused, backup] =
    await Promise.all([
      counts(
        em,
        "select status as name, count(*) from sandboxes where status not in ('terminated', 'failed') group by 1",
      ),
      counts(
        em,
        `select case when lost_at is not null then 'lost' when lease_expires_at <= now() then 'away'
                   when draining_since is not null then 'draining' else 'ready' end as name, count(*)
         from hosts group by 1`,
      ),
      countEntries(em),
      one<{ seconds: number }>(
        em,
        `select coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8 as seconds
         from outbox where dead_at is null`,
      ),
      one<{ waiting: number; seconds: number }>(
        em,
        `select count(*)::int as waiting,
              greatest(0, coalesce(extract(epoch from clock_timestamp() - min(relay_at)), 0))::float8 as seconds
         from webhook_deliveries where relay_at is not null`,
      ),
      one<{ delivered: number; failed: number; disabled: number }>(
        em,
        `select coalesce(sum(successful_deliveries), 0)::float8 as delivered, coalesce(sum(failed_deliveries), 0)::float8 as failed,
              (count(*) filter (where not is_active and disabled_reason is not null))::int as disabled
         from webhook_endpoints`,
      ),
      counts(
        em,
        "select status as name, count(*) from import_jobs where status not in ('completed', 'failed', 'cancelled') group by 1",
      ),
      readReconciliationState(em),
      countRefusedUsage(em),
      lastBackup(em),
    ]);
  return {
    sandboxes: { ...livingStatuses, ...sandboxes },
    hosts: { ...hostStates, ...hosts },
    outbox: { ...entries, oldestSeconds: Math.max(0, oldest.seconds) },
    webhooks: {
      waiting: due.waiting,
      oldestDueSeconds: due.seconds,
      delivered: endpoints.delivered,
      failed: endpoints.failed,
      disabledEndpoints: endpoints.disabled,
    },
    importJobs: { ...importStatuses, ...jobs },
    reconciliation,
    usageRefused,
    backup,
  };
}

/** The last backup by the command `backup`, which records itself when it is complete. Null: there was none. */
async function lastBackup(em: EntityManager): Promise<{ endedAt: Date } | null> {
  const [row] = await query<{ created_at: string }>(
    em.fork(),
    // The command also records the drain of a host, which is an object.
    `select created_at from audit_events where account_id is null and action = 'backup' and object_id is null
      order by created_at desc limit 1`,
  );
  return row ? { endedAt: new Date(row.created_at) } : null;
}

/** Statuses without sandboxes are shown as 0, so that graphs do not end. */
const livingStatuses = { created: 0, starting: 0, running: 0, pausing: 0, paused: 0, resuming: 0, terminating: 0 };

const hostStates = { ready: 0, draining: 0, away: 0, lost: 0 };
const importStatuses = { pending: 0, running: 0 };

async function counts(em: EntityManager, sql: string): Promise<Record<string, number>> {
  const rows = await query<{ name: string; count: string }>(em.fork(), sql);
  return Object.fromEntries(rows.map(({ name, count }) => [name, Number(count)]));
}

async function one<Row extends object>(em: EntityManager, sql: string): Promise<Row> {
  const [row] = await query<Row>(em.fork(), sql);
  return row!;
}
