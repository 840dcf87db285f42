import type { EntityManager } from '@mikro-orm/postgresql';
import { Event } from '../entities/event.ts';
import type { Sandbox } from '../entities/sandbox.ts';
import { newId } from '../new-id.ts';

/** Event types of a sandbox's life (section 6.1). */
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

/**
 * The next fact of a sandbox, counted on its row. To be written in the one statement or transaction that makes it true:
 * that is what keeps the sequence without gaps and in order.
 */
export function newSandboxEvent(sandbox: Sandbox, type: SandboxEventType, at: Date): Event {
  sandbox.eventSequence += 1;
  return {
    eventId: newId('event'),
    accountId: sandbox.accountId,
    userId: sandbox.ownerUserId,
    objectId: sandbox.sandboxId,
    sequence: sandbox.eventSequence,
    type,
    data: {
      sandbox_id: sandbox.sandboxId,
      status: sandbox.status,
      reason: sandbox.reason ?? null,
      project_id: sandbox.projectId,
      template_id: sandbox.templateId,
      sequence: sandbox.eventSequence,
    },
    createdAt: at,
  };
}

/** Tells a fact of a sandbox whose row the caller has locked, in the transaction that made it one. */
export function tellSandboxEvent(em: EntityManager, sandbox: Sandbox, type: SandboxEventType, at: Date): void {
  em.create(Event, newSandboxEvent(sandbox, type, at), { persist: true });
}
