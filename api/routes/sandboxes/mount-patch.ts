import type { Settings } from '../../../config/settings.ts';
import type { MountPatch } from '../../../domain/object-storage.ts';
import { requireLasting } from './direct-mount.ts';
import { requireOutbound } from './object-storage-body.ts';

/**
 * Refuses a change of mounts that the sandbox can never take, before anything has begun.
 * @throws {AppError} `validation_failed`: an endpoint that is forbidden; `direct_mount_not_possible`: a session token for
 *   a sandbox with direct mounts
 */
export function requireUsable(patch: MountPatch, sandbox: { directMount: boolean }, settings: Settings): void {
  if (patch.kind !== 'mounts') return;
  const upserts = patch.changes.filter((change) => change.kind === 'upsert');
  const pathOf = (at: number) => `object_storage.mounts.${patch.changes.indexOf(upserts[at]!)}`;
  requireOutbound(upserts, pathOf, settings);
  if (sandbox.directMount) requireLasting(upserts, pathOf);
}
