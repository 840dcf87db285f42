import type { Sandbox } from '../../../db/entities/sandbox.ts';
import type { Template } from '../../../db/entities/template.ts';
import { AppError } from '../../../domain/errors.ts';
import type { WantedMount } from '../../../domain/object-storage.ts';
import type { CreateBody } from './create-body.ts';
import { mountPath } from './object-storage-body.ts';

/**
 * The options of a create for direct mounts, where the image's own s3fs runs in the sandbox.
 * @throws {AppError} `validation_failed`, `direct_mount_not_possible`
 */
export function directMountOf(body: CreateBody, template: Template): Pick<Sandbox, 'directMount' | 's3fsPath'> {
  const { object_storage_direct_mount: asked, s3fs_executable_path: s3fsPath } = body;
  if (!asked && s3fsPath !== '') {
    throw refusal('validation_failed', 's3fs_executable_path', 'is for object_storage_direct_mount only');
  }
  // Only a custom template's image brings an s3fs; elsewhere the host mounts, which serves the caller as well.
  const directMount = asked && template.templateSource === 'custom';
  if (directMount && !body.allow_internet_access) {
    throw notPossible(
      'object_storage_direct_mount',
      'needs allow_internet_access: s3fs has the network of the sandbox',
    );
  }
  if (directMount) requireLasting(body.object_storage.mounts, (index) => mountPath(body.object_storage, index));
  return { directMount, s3fsPath: directMount ? s3fsPath : '' };
}

/** s3fs takes a session token from its environment or a file of the image only, where it would be seen. */
export function requireLasting(mounts: readonly WantedMount[], pathOf: (index: number) => string): void {
  const at = mounts.findIndex((mount) => mount.credentials.sessionToken !== null);
  if (at >= 0) throw notPossible(`${pathOf(at)}.session_token`, 'cannot be handed to an s3fs in the sandbox');
}

const notPossible = (path: string, reason: string) => refusal('direct_mount_not_possible', path, reason);

function refusal(code: 'validation_failed' | 'direct_mount_not_possible', path: string, reason: string): AppError {
  return new AppError(code, `${path} ${reason}`, { details: [{ path, reason }] });
}
