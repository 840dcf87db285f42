import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, SandboxId, UserId } from '../../domain/ids.ts';
import type { SandboxReason, SandboxStatus } from '../../domain/sandboxes/state.ts';
import { Event } from '../core/event.entity.ts';
import { newEvent } from '../core/events.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import type { Sandbox } from './sandbox.entity.ts';

/** Event types of a sandbox's life. */
export type SandboxEventType =
  | 'sandbox.created'
  | 'sandbox.started'
  | 'sandbox.stopped'
  | 'sandbox.paused'
  | 'sandbox.resumed'
  | 'sandbox.restarted'
  | 'sandbox.terminated'
  | 'sandbox.failed'
  | 'sandbox.project_switched';

export type EventFields = Pick<
  Sandbox,
  'sandboxId' | 'accountId' | 'ownerUserId' | 'projectId' | 'templateId' | 'status' | 'reason' | 'eventSequence'
>;

/**
 * The next event of a sandbox, counted on its row. Write it in the same statement or transaction as its cause, so that
 * the sequence is without gaps and in order.
 */
export function newSandboxEvent(sandbox: EventFields, type: SandboxEventType, at: Date): Event {
  sandbox.eventSequence += 1;
  const object = { objectId: sandbox.sandboxId, accountId: sandbox.accountId, userId: sandbox.ownerUserId };
  const data = {
    sandbox_id: sandbox.sandboxId,
    status: sandbox.status,
    reason: sandbox.reason ?? null,
    project_id: sandbox.projectId,
    template_id: sandbox.templateId,
  };
  return newEvent(object, sandbox.eventSequence, type, data, at);
}

/** Records an event of a sandbox whose row the caller has locked, in the transaction of the event's cause. */
export function recordSandboxEvent(em: EntityManager, sandbox: Sandbox, type: SandboxEventType, at: Date): void {
  em.create(Event, newSandboxEvent(sandbox, type, at), { persist: true });
}

/** Records the end of a command. It is the only event of an execution, which is its own object. */
export function recordExecutionEnd(
  em: EntityManager,
  sandbox: { sandboxId: SandboxId; accountId: AccountId; ownerUserId: UserId },
  execution: {
    executionId: string;
    startedAt: string;
    exitCode: number | null;
    error: string | null;
    durationMs: number | null;
  },
): void {
  const object = {
    objectId: `run-${execution.executionId}`,
    accountId: sandbox.accountId,
    userId: sandbox.ownerUserId,
  };
  const data = {
    sandbox_id: sandbox.sandboxId,
    run_id: execution.executionId,
    started_at: execution.startedAt,
    exit_code: execution.exitCode,
    error: execution.error,
    duration_ms: execution.durationMs,
  };
  em.create(Event, newEvent(object, 1, 'exec.finished', data, new Date()), { persist: true });
}

/** An event of a sandbox's life, for its log. */
export interface SandboxEvent {
  type: string;
  status: SandboxStatus;
  reason: SandboxReason | null;
  at: Date;
}

/**
 * The events of a sandbox, oldest first from `at` on, or newest first up to `at`. Null: all of them.
 * @param range.limit the maximum number of events
 */
export async function readSandboxEvents(
  em: EntityManager,
  sandboxId: SandboxId,
  { at, isBackward, limit }: { at: Date | null; isBackward: boolean; limit: number },
): Promise<SandboxEvent[]> {
  const order = isBackward ? ('desc' as const) : ('asc' as const);
  const bound = isBackward ? ('<=' as const) : ('>=' as const);
  const rows = await query<{ type: string; status: SandboxStatus; reason: SandboxReason | null; created_at: string }>(
    em.fork(),
    `select type, coalesce(data->>'status', '') as status, data->>'reason' as reason, created_at from events
      where object_id = ? and created_at ${bound} coalesce(?::timestamptz, created_at)
      order by sequence ${order} limit ?`,
    [sandboxId, at?.toISOString() ?? null, limit],
  );
  return rows.map(({ type, status, reason, created_at }) => ({ type, status, reason, at: new Date(created_at) }));
}

const listed: ListedTable = { table: 'events', alias: 'e', key: ['sequence'], keyOrder: 'desc' };

/** A page of the events of a sandbox. */
export async function listSandboxEvents(
  em: EntityManager,
  sandboxId: SandboxId,
  listing: Listing,
): Promise<ListPage & { events: Event[] }> {
  const ofSandbox = { sql: 'e.object_id = ?', values: [sandboxId] };
  const { rows, ...page } = await readPage<EntityRow<Event>>(em.fork(), listed, [ofSandbox], listing);
  return { events: rows.map((row) => readRow(em, Event, row)), ...page };
}
