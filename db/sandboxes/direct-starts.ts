import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/**
 * The notifications of direct starts. An admission tells the host of the sandbox, and the result tells the API: the
 * trigger `sandbox_started` when the row becomes `running`, or the host when it leaves the start to the workflow.
 * Nothing depends on a notification: if one is lost, the workflow starts the sandbox.
 */

/** How long the API and the relay leave the start of a sandbox to its host. */
export const directStartSeconds = 5;

/** The channel of the results. The payload is an id, and after a space the Unix milliseconds of the start, if it runs. */
export const startNewsChannel = 'sandbox_started';

/**
 * The NOTIFY channel of one host. Each notification names a sandbox to start: its id, a space, and the id of the create's
 * request. Without a request, it is the sandbox's id alone.
 */
export function startsChannel(hostId: string): string {
  return `starts_on_${createHash('sha256').update(hostId).digest('hex').slice(0, 32)}`;
}

/** Tells the API that the host did not start a sandbox directly. */
export async function leaveToWorkflow(em: EntityManager, sandboxId: SandboxId): Promise<void> {
  await query(em.fork(), 'select pg_notify(?, ?)', [startNewsChannel, sandboxId]);
}

/** Records whether a host listens for direct starts. */
export async function recordHearing(em: EntityManager, hostId: string, hears: boolean): Promise<void> {
  await query(em.fork(), 'update hosts set hears_starts = ? where host_id = ?', [hears, hostId]);
}
