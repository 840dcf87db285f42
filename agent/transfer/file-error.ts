import type { IncomingMessage, ServerResponse } from 'node:http';
import { endEarly } from '../http/end-early.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError, toConnectError, toHttpStatus } from '../rpc/errors.ts';

/** A file request fails with this HTTP status and a text for the client. */
export class FileRequestError extends Error {
  override name = 'FileRequestError';
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

/** The reply for any error. A full disk is 507. */
export function toFileError(error: unknown, subject?: string): FileRequestError {
  if (error instanceof FileRequestError) return error;
  if (isSystemError(error) && (error.code === 'ENOSPC' || error.code === 'EDQUOT')) {
    return new FileRequestError(507, toConnectError(error, subject ?? '').rawMessage);
  }
  const known = error instanceof ConnectError ? error : toConnectError(error, subject);
  return new FileRequestError(toHttpStatus(known.code), known.rawMessage);
}

/** Replies `{"message": …}`, even if the request was not read completely. */
export function replyFileError(req: IncomingMessage, res: ServerResponse, error: FileRequestError): void {
  const body = JSON.stringify({ message: error.message });
  endEarly(req, res, error.status, { ...error.headers, 'content-type': 'application/json' }, body);
}
