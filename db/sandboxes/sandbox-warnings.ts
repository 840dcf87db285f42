import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { SandboxId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { Sandbox, type SandboxFailure } from './sandbox.entity.ts';

/** Notifies the owner that a timeout is near. Repeated calls for the same deadline and distance notify once. */
export async function warnOfTimeout(
  em: EntityManager,
  sandboxId: SandboxId,
  deadline: Date,
  beforeSeconds: number,
): Promise<void> {
  await warn(em, sandboxId, {
    type: 'sandbox_timeout',
    key: `${deadline.getTime()}/${beforeSeconds}`,
    title: 'A sandbox is about to time out',
    text: (name, autoPause) =>
      `${name} will be ${autoPause ? 'paused' : 'terminated'} at ${deadline.toISOString()}, in ${beforeSeconds} seconds.`,
  });
}

/** Notifies the owner that a paused sandbox is about to be removed. */
export async function warnOfExpiry(em: EntityManager, sandboxId: SandboxId, expires: Date): Promise<void> {
  await warn(em, sandboxId, {
    type: 'sandbox_expiry',
    key: String(expires.getTime()),
    title: 'A paused sandbox is about to be removed',
    text: (name) =>
      `${name} has been paused for a long time and will be removed at ${expires.toISOString()} unless it is resumed.`,
  });
}

/** Notifies the owner that a sandbox was paused because the disk of its host is nearly full. */
export async function warnOfDiskPressure(em: EntityManager, sandboxId: SandboxId, pausedAt: Date): Promise<void> {
  await warn(em, sandboxId, {
    type: 'sandbox_host_disk_pressure',
    key: String(pausedAt.getTime()),
    title: 'A sandbox was paused: the disk of its host is nearly full',
    text: (name) =>
      `${name} wrote much data while the disk of its host was nearly full, and was paused at ${pausedAt.toISOString()}. ` +
      'It can be resumed when there is room again.',
  });
}

/** Notifies the owner that a sandbox failed. */
export async function notifyOfFailure(em: EntityManager, sandboxId: SandboxId, failure: SandboxFailure): Promise<void> {
  await warn(em, sandboxId, {
    type: 'sandbox_failed',
    key: 'failed',
    title: 'A sandbox failed',
    text: (name) => `${name} failed: ${failure.message}`,
  });
}

async function warn(
  em: EntityManager,
  sandboxId: SandboxId,
  warning: { type: string; key: string; title: string; text: (name: string, autoPause: boolean) => string },
): Promise<void> {
  const fork = em.fork();
  const sandbox = await fork.findOne(Sandbox, { sandboxId });
  if (!sandbox) return;
  // The id is derived from the text, so that a retry inserts nothing.
  const id = `ntf-${createHash('sha256').update(`${sandboxId}/${warning.type}/${warning.key}`).digest('hex').slice(0, 20)}`;
  await query(
    fork,
    `insert into notifications (id, account_id, user_id, title, message, type, category, related_entity_type, related_entity_id)
     values (?, ?, ?, ?, ?, ?, 'sandbox', 'sandbox', ?) on conflict (id) do nothing`,
    [
      id,
      sandbox.accountId,
      sandbox.ownerUserId,
      warning.title,
      warning.text(sandbox.name || sandboxId, sandbox.autoPause),
      warning.type,
      sandboxId,
    ],
  );
}
