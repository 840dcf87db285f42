import type { MountPatch } from '../../../domain/sandboxes/object-storage.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { requireLasting } from './direct-mount.ts';
import { requireOutbound } from './object-storage-body.ts';

/**
 * Refuses, before any work begins, a change of mounts that can never succeed.
 * @throws {AppError} `validation_failed` for a forbidden endpoint; `direct_mount_not_possible` for a session token and
 * a sandbox with direct mounts
 */
export function requireUsable(patch: MountPatch, sandbox: { directMount: boolean }, settings: Settings): void {
  if (patch.kind !== 'mounts') return;
  const upserts = patch.changes.filter((change) => change.kind === 'upsert');
  const pathOf = (at: number) => `object_storage.mounts.${patch.changes.indexOf(upserts[at]!)}`;
  requireOutbound(upserts, pathOf, settings);
  if (sandbox.directMount) requireLasting(upserts, pathOf);
}
