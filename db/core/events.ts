import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, SandboxId, UserId } from '../../domain/ids.ts';
import { Event } from './event.entity.ts';
import type { Sandbox } from '../sandboxes/sandbox.entity.ts';
import { newId } from '../new-id.ts';
import { query } from '../query.ts';

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

/** The object of an event, and its receivers: the owner, and the account's root users. */
export interface EventObject {
  /** The id has a prefix, so that no two objects share it. */
  objectId: string;
  accountId: AccountId;
  /** Null: the object belongs only to the account. */
  userId: UserId | null;
}

/**
 * Records an event of any object, in the transaction of `em` that makes it true. The events of one object are numbered
 * from 1 without gaps: the counter is locked until the transaction ends, and rolled back with it. Call this late in a
 * transaction.
 */
export async function recordEvent(
  em: EntityManager,
  object: EventObject,
  type: string,
  data: Record<string, unknown>,
): Promise<Event> {
  const [counted] = await query<{ last: number }>(
    em,
    `insert into event_sequences as s (object_id, last) values (?, 1)
     on conflict (object_id) do update set last = s.last + 1 returning last`,
    [object.objectId],
  );
  return em.create(Event, newEvent(object, counted!.last, type, data, new Date()), { persist: true });
}

/**
 * The next event of a sandbox, counted on its row. Write it in the same statement or transaction as its cause, so that
 * the sequence is without gaps and in order.
 */
export function newSandboxEvent(sandbox: Sandbox, type: SandboxEventType, at: Date): Event {
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

/** Records the end of a command. It is the only event of a run, which is its own object. */
export function recordRunEnd(
  em: EntityManager,
  sandbox: { sandboxId: SandboxId; accountId: AccountId; ownerUserId: UserId },
  run: { runId: string; startedAt: string; exitCode: number | null; error: string | null; durationMs: number | null },
): void {
  const object = { objectId: `run-${run.runId}`, accountId: sandbox.accountId, userId: sandbox.ownerUserId };
  const data = {
    sandbox_id: sandbox.sandboxId,
    run_id: run.runId,
    started_at: run.startedAt,
    exit_code: run.exitCode,
    error: run.error,
    duration_ms: run.durationMs,
  };
  em.create(Event, newEvent(object, 1, 'exec.finished', data, new Date()), { persist: true });
}

/** Receivers get `sequence` in the data, so that they can order events. */
function newEvent(
  object: EventObject,
  sequence: number,
  type: string,
  data: Record<string, unknown>,
  createdAt: Date,
): Event {
  return { eventId: newId('event'), ...object, sequence, type, data: { ...data, sequence }, createdAt };
}
