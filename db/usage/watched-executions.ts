import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, SandboxId, UserId } from '../../domain/ids.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { query } from '../core/query.ts';
import { recordExecutionEnd } from '../sandboxes/sandbox-events.ts';

/**
 * The maximum number of unreported ends of one sandbox. Root in the sandbox controls the agent, which may never answer.
 */
const maxPerSandbox = 64;

/** After this time, an unconfirmed start is checked at the agent. */
const startSeconds = 20;

/** How long a process may take to ask for the ends of a sandbox, before another process asks. */
const leaseSeconds = 60;

export interface WatchedExecution {
  executionId: string;
  /** The same time as in the reply to the start. */
  startedAt: string;
  deadline: Date;
  hasStarted: boolean;
}

/** Watched executions of one sandbox, oldest first. */
export interface WatchedSandbox {
  sandboxId: SandboxId;
  accountId: AccountId;
  ownerUserId: UserId;
  status: SandboxStatus;
  hostId: string | null;
  agentAddress: string | null;
  agentPort: number | null;
  secretKeyNumber: number;
  executions: WatchedExecution[];
}

/** The end of an execution in the form of its event. */
export interface ReportedEnd {
  exitCode: number | null;
  error: string | null;
  durationMs: number | null;
}

/**
 * Watches for the end of an execution that is about to start, if a webhook subscribes to such events.
 * @returns whether the execution is watched
 */
export async function watchExecution(
  em: EntityManager,
  execution: { executionId: string; sandboxId: SandboxId; startedAt: string; deadline: string },
): Promise<boolean> {
  const rows = await query(
    em.fork(),
    `insert into watched_runs (run_id, sandbox_id, started_at, deadline, ask_at)
     select ?, s.sandbox_id, ?, ?::timestamptz, clock_timestamp() + interval '${startSeconds} seconds'
       from sandboxes s
      where s.sandbox_id = ? and s.status = 'running'
        and exists (select 1 from webhook_endpoints w
          where w.account_id = s.account_id and w.is_active and w.event_types && '{exec.finished,exec.*}'
            and (w.user_id is null or w.user_id = s.owner_user_id))
        and (select count(*) from watched_runs r where r.sandbox_id = s.sandbox_id) < ${maxPerSandbox}
     on conflict (run_id) do nothing returning 1`,
    [execution.executionId, execution.startedAt, execution.deadline, execution.sandboxId],
  );
  return rows.length > 0;
}

/** The agent has confirmed the start. From now on its end is queried. */
export async function confirmExecution(em: EntityManager, executionId: string): Promise<void> {
  await query(em.fork(), 'update watched_runs set has_started = true, ask_at = clock_timestamp() where run_id = ?', [
    executionId,
  ]);
}

/** The execution did not start. */
export async function forgetExecution(em: EntityManager, executionId: string): Promise<void> {
  await query(em.fork(), 'delete from watched_runs where run_id = ?', [executionId]);
}

/** Claims sandboxes with ends to query. Other processes do not query these ends until the lease expires. */
export async function claimWatchedExecutions(
  em: EntityManager,
  limit: { sandboxes: number; perAccount: number },
): Promise<WatchedSandbox[]> {
  if (limit.sandboxes <= 0) return [];
  const rows = await query<{
    run_id: string;
    started_at: string;
    deadline: string;
    has_started: boolean;
    sandbox_id: SandboxId;
    account_id: AccountId;
    owner_user_id: UserId;
    status: SandboxStatus;
    host_id: string | null;
    agent_address: string | null;
    agent_port: number | null;
    secret_key_number: number;
  }>(
    em.fork(),
    `with due as materialized (
       select sandbox_id from (
         select sandbox_id, min(asked) as asked, row_number() over (partition by account_id order by min(asked)) as nth from (
           select r.sandbox_id, s.account_id, r.ask_at as asked
             from watched_runs r join sandboxes s using (sandbox_id) where r.ask_at <= clock_timestamp()) each_execution
          group by sandbox_id, account_id) of_account
        where nth <= ? order by asked limit ?
     ), claimed as (
       update watched_runs set ask_at = clock_timestamp() + interval '${leaseSeconds} seconds'
        where run_id in (select run_id from watched_runs join due using (sandbox_id)
                          where ask_at <= clock_timestamp() for update of watched_runs skip locked)
       returning *
     )
     select c.run_id, c.started_at, c.deadline, c.has_started, s.sandbox_id, s.account_id, s.owner_user_id, s.status,
            s.host_id, s.agent_address, s.agent_port, s.secret_key_number
       from claimed c join sandboxes s using (sandbox_id) order by c.started_at`,
    [limit.perAccount, limit.sandboxes],
  );
  const sandboxes = new Map<string, WatchedSandbox>();
  for (const row of rows) {
    const sandbox = sandboxes.get(row.sandbox_id) ?? {
      sandboxId: row.sandbox_id,
      accountId: row.account_id,
      ownerUserId: row.owner_user_id,
      status: row.status,
      hostId: row.host_id,
      agentAddress: row.agent_address,
      agentPort: row.agent_port,
      secretKeyNumber: row.secret_key_number,
      executions: [],
    };
    sandboxes.set(row.sandbox_id, sandbox);
    sandbox.executions.push({
      executionId: row.run_id,
      startedAt: row.started_at,
      deadline: new Date(row.deadline),
      hasStarted: row.has_started,
    });
  }
  return [...sandboxes.values()];
}

/** Schedules the next query of these ends. */
export async function askAgain(em: EntityManager, executionIds: readonly string[], afterMs: number): Promise<void> {
  await query(
    em.fork(),
    `update watched_runs set ask_at = clock_timestamp() + ? * interval '1 millisecond'
        where run_id in (select jsonb_array_elements_text(?::jsonb))`,
    [afterMs, JSON.stringify(executionIds)],
  );
}

/** Records the end of an execution as an event. An execution that is reported twice has one event. */
export async function reportExecutionEnd(
  em: EntityManager,
  sandbox: Pick<WatchedSandbox, 'sandboxId' | 'accountId' | 'ownerUserId'>,
  execution: WatchedExecution,
  end: ReportedEnd,
): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const taken = await query(tx, 'delete from watched_runs where run_id = ? returning 1', [execution.executionId]);
    if (taken.length > 0) recordExecutionEnd(tx, sandbox, { ...execution, ...end });
  });
}
