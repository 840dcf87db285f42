import { AppError } from '../../../domain/errors.ts';
import type { CreateBody } from './create-body.ts';

/** Says plainly what this release cannot do yet, rather than leaving it out in silence. */
export function refuseUnavailable(body: CreateBody): void {
  if (body.object_storage_direct_mount) throw notAvailable('object_storage_direct_mount', 'Direct mounts are');
  if (body.s3fs_executable_path !== '') throw notAvailable('s3fs_executable_path', 'Direct mounts are');
}

export function notAvailable(path: string, what: string): AppError {
  return new AppError('not_available_yet', `${what} not available yet`, {
    details: [{ path, reason: 'not available yet' }],
  });
}
