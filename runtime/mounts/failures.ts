import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import { type DirectMount, DriverError } from '../driver.ts';

/**
 * The only message for an endpoint in a range that the operator opened, unless an S3 server answered. It hides the
 * state of the operator's network from callers.
 */
export const noUsableAnswer = 'the storage could not be reached, or gave no usable answer';

/** Whether an S3 server has answered, or the failure has nothing to do with the endpoint. */
export const hasAnswered = (said: string) => /<Code>\w+<\/Code>|s3fs: No such file|dev\/fuse|fsopen/.test(said);

/** Explains the last messages of s3fs to users. The messages themselves contain hosts and files of this machine. */
export function explainS3fs(said: string, direct?: DirectMount): string {
  if (direct && /executable file .*not found|open executable|not executable|exec failed|exec: /.test(said)) {
    return `the image has no program ${direct.s3fsPath}`;
  }
  if (/invalid credentials/i.test(said)) return 'the storage refused the credentials';
  if (/Bad Request/.test(said))
    return 'the storage took the request for a wrong one: look at the endpoint and the region';
  if (/bucket or (key|directory) not found/i.test(said))
    return 'the storage knows no such bucket, or not this access key';
  if (/remote mountpath .* not found|directory\(.*\) not found/.test(said)) return 'the bucket has no such path';
  if (/unable to connect/i.test(said)) return 'the storage could not be reached';
  if (/fuse: device not found|\/dev\/fuse/.test(said)) return 'the host has no FUSE (modprobe fuse)';
  if (/s3fs: No such file/.test(said)) return 'the host has no s3fs';
  return 'the storage gave no usable answer';
}

export function mountFailure(slot: MountSlot, reason: string, cause?: unknown): DriverError {
  return new DriverError('object_storage_mount_failed', `${slot.uri} could not be mounted: ${reason}`, { cause });
}

/** Explains to users why a folder could not become a mount point. */
export function explainPlace(said: string, mountPoint: string): string {
  if (/Not a directory|File exists/.test(said)) return `a part of ${mountPoint} is not a folder`;
  if (/symbolic links/.test(said)) return `a part of ${mountPoint} is a symbolic link`;
  return `${mountPoint} could not be made`;
}

export function credentialsRequired(missing: readonly MountSlot[]): DriverError {
  const where = missing.map((slot) => slot.mountPoint).join(', ');
  return new DriverError('object_storage_credentials_required', `Credentials are needed again for ${where}`);
}
