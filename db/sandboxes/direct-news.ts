import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import { query } from '../core/query.ts';

/**
 * The notifications of direct moves: first starts, pauses and resumes that a host makes without the workflow. The API
 * tells the host, and the result tells the API: the trigger `sandbox_moved` when the row changes, or the host when it
 * leaves the move to the workflow. Nothing depends on a notification: if one is lost, the workflow makes the move.
 */

/** How long the API and the relay leave a move to the host. */
export const directMoveSeconds = 5;

/** What a host can do directly. */
export type DirectWork = 'start' | 'pause' | 'resume';

/** The end of a move. Status and run tell it from the moves of the sandbox before and after it. */
export interface News {
  status: SandboxStatus;
  /** Unix milliseconds since which the sandbox runs or is paused. */
  sinceMs: number;
  run: number;
}

/**
 * The channel of the results. The payload is an id, and after spaces the fields of `News`. The id alone: the host leaves
 * the move to the workflow.
 */
export const newsChannel = 'sandbox_moved';

/** The NOTIFY channel of one host. Its name and the notification of a start are those of the previous release. */
export function workChannel(hostId: string): string {
  return `starts_on_${createHash('sha256').update(hostId).digest('hex').slice(0, 32)}`;
}

/** The notification of a work for a host. */
export function toWorkNotice(work: DirectWork, sandboxId: SandboxId, requestId: string | null): string {
  return [work === 'start' ? null : work, sandboxId, requestId].filter(Boolean).join(' ');
}

export function readWorkNotice(payload: string): { work: DirectWork; sandboxId: SandboxId; requestId: string | null } {
  const words = payload.split(' ');
  const work = words[0] === 'pause' || words[0] === 'resume' ? words[0] : 'start';
  const [sandboxId, requestId] = work === 'start' ? words : words.slice(1);
  return { work, sandboxId: sandboxId as SandboxId, requestId: requestId || null };
}

/** Null: the host leaves the move to the workflow. */
export function readNews(payload: string): { sandboxId: SandboxId; news: News | null } {
  const [sandboxId, status, sinceMs, run] = payload.split(' ');
  const news = status ? { status: status as SandboxStatus, sinceMs: Number(sinceMs), run: Number(run) } : null;
  return { sandboxId: sandboxId as SandboxId, news };
}

/** Tells the API that the host did not make a move. */
export async function leaveToWorkflow(em: EntityManager, sandboxId: SandboxId): Promise<void> {
  await query(em.fork(), 'select pg_notify(?, ?)', [newsChannel, sandboxId]);
}

/** Records whether a host listens for direct moves. */
export async function recordHearing(em: EntityManager, hostId: string, hears: boolean): Promise<void> {
  await query(em.fork(), 'update hosts set hears_starts = ?, hears_moves = ? where host_id = ?', [
    hears,
    hears,
    hostId,
  ]);
}
