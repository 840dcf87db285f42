import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { Template } from '../../../db/templates/template.entity.ts';
import { AppError } from '../../../domain/errors.ts';
import type { WantedMount } from '../../../domain/sandboxes/object-storage.ts';
import type { CreateBody } from './create-body.ts';
import { mountPath } from './object-storage-body.ts';

/**
 * The options of a create for direct mounts, with which the s3fs of the image runs in the sandbox.
 * @throws {AppError} `validation_failed`, `direct_mount_not_possible`
 */
export function directMountOf(body: CreateBody, template: Template): Pick<Sandbox, 'directMount' | 's3fsPath'> {
  const { object_storage_direct_mount: asked, s3fs_executable_path: s3fsPath } = body;
  if (!asked && s3fsPath !== '') {
    throw refusal('validation_failed', 's3fs_executable_path', 'is for object_storage_direct_mount only');
  }
  // Only a custom template's image contains s3fs. For other templates the host mounts, which gives the caller the same
  // result.
  const directMount = asked && template.templateSource === 'custom';
  if (directMount && !body.allow_internet_access) {
    throw notPossible(
      'object_storage_direct_mount',
      'needs allow_internet_access, because s3fs uses the network of the sandbox',
    );
  }
  if (directMount) requireLasting(body.object_storage.mounts, (index) => mountPath(body.object_storage, index));
  return { directMount, s3fsPath: directMount ? s3fsPath : '' };
}

/**
 * s3fs reads a session token only from its environment or a file of the image, and processes of the sandbox could see
 * both.
 */
export function requireLasting(mounts: readonly WantedMount[], pathOf: (index: number) => string): void {
  const at = mounts.findIndex((mount) => mount.credentials.sessionToken !== null);
  if (at >= 0) throw notPossible(`${pathOf(at)}.session_token`, 'is not supported with an s3fs in the sandbox');
}

const notPossible = (path: string, reason: string) => refusal('direct_mount_not_possible', path, reason);

function refusal(code: 'validation_failed' | 'direct_mount_not_possible', path: string, reason: string): AppError {
  return new AppError(code, `${path} ${reason}`, { details: [{ path, reason }] });
}
