import { types } from 'node:util';
import { Code } from '@connectrpc/connect';
import { ConnectError } from './connect-error.ts';

/** Connect codes and texts for errors of the kernel. Clients rely on the texts. */
const systemErrors: Record<string, readonly [Code, string]> = {
  ENOENT: [Code.NotFound, 'not found: no such file or directory'],
  ESRCH: [Code.NotFound, 'not found: no such process'],
  EEXIST: [Code.AlreadyExists, 'already exists'],
  ENOTDIR: [Code.FailedPrecondition, 'not a directory'],
  EISDIR: [Code.FailedPrecondition, 'is a directory'],
  ENOTEMPTY: [Code.FailedPrecondition, 'directory not empty'],
  ELOOP: [Code.FailedPrecondition, 'too many levels of symbolic links'],
  EROFS: [Code.FailedPrecondition, 'read-only file system'],
  ETXTBSY: [Code.FailedPrecondition, 'text file busy'],
  ENOEXEC: [Code.FailedPrecondition, 'exec format error'],
  EBUSY: [Code.Unavailable, 'resource busy'],
  EAGAIN: [Code.ResourceExhausted, 'resource temporarily unavailable'],
  ENOMEM: [Code.ResourceExhausted, 'out of memory'],
  ENOSPC: [Code.ResourceExhausted, 'no space left on device'],
  EDQUOT: [Code.ResourceExhausted, 'disk quota exceeded'],
  EMFILE: [Code.ResourceExhausted, 'too many open files'],
  ENFILE: [Code.ResourceExhausted, 'too many open files'],
  EFBIG: [Code.ResourceExhausted, 'file too large'],
  EACCES: [Code.PermissionDenied, 'permission denied'],
  EPERM: [Code.PermissionDenied, 'operation not permitted'],
  EINVAL: [Code.InvalidArgument, 'invalid argument'],
  ENAMETOOLONG: [Code.InvalidArgument, 'file name too long'],
  E2BIG: [Code.InvalidArgument, 'argument list too long'],
  EIO: [Code.Internal, 'input/output error'],
};

/** Whether `error` is a system error with an errno. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return types.isNativeError(error) && 'syscall' in error && typeof (error as NodeJS.ErrnoException).code === 'string';
}

/**
 * Converts an error of a handler to a ConnectError. The text of a system error begins with `subject` (a path, a
 * command). An unknown error becomes `internal`, and its text only goes to standard error.
 */
export function toConnectError(error: unknown, subject?: string): ConnectError {
  if (error instanceof ConnectError) return error;
  if (isSystemError(error)) {
    const known = systemErrors[error.code as string];
    const about = subject ?? error.path;
    const prefix = about === undefined ? '' : `${about}: `;
    if (known) return new ConnectError(`${prefix}${known[1]}`, known[0], error);
    return new ConnectError(`${prefix}${error.code}`, Code.Unknown, error);
  }
  console.error('agent:', error);
  return new ConnectError('internal error', Code.Internal, error);
}

/** HTTP status and wire name of each code, from the Connect protocol's table. */
const wire: Record<Code, readonly [number, string]> = {
  [Code.Canceled]: [499, 'canceled'],
  [Code.Unknown]: [500, 'unknown'],
  [Code.InvalidArgument]: [400, 'invalid_argument'],
  [Code.DeadlineExceeded]: [504, 'deadline_exceeded'],
  [Code.NotFound]: [404, 'not_found'],
  [Code.AlreadyExists]: [409, 'already_exists'],
  [Code.PermissionDenied]: [403, 'permission_denied'],
  [Code.ResourceExhausted]: [429, 'resource_exhausted'],
  [Code.FailedPrecondition]: [400, 'failed_precondition'],
  [Code.Aborted]: [409, 'aborted'],
  [Code.OutOfRange]: [400, 'out_of_range'],
  [Code.Unimplemented]: [501, 'unimplemented'],
  [Code.Internal]: [500, 'internal'],
  [Code.Unavailable]: [503, 'unavailable'],
  [Code.DataLoss]: [500, 'data_loss'],
  [Code.Unauthenticated]: [401, 'unauthenticated'],
};

export function toHttpStatus(code: Code): number {
  return wire[code][0];
}

/** The JSON form of an error: the body of a failed unary call, and `error` of a stream's last frame. */
export function errorJson(error: ConnectError): { code: string; message: string } {
  return { code: wire[error.code][1], message: error.rawMessage };
}
