import type { IncomingMessage, ServerResponse } from 'node:http';
import { ConnectError } from '@connectrpc/connect';
import { httpStatusOf, isSystemError, toConnectError } from '../rpc/errors.ts';

/** A file request that cannot be served: its HTTP status and a text for the client. */
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

/** The reply for whatever went wrong; a full disk is 507. */
export function fileErrorOf(error: unknown, subject?: string): FileRequestError {
  if (error instanceof FileRequestError) return error;
  if (isSystemError(error) && (error.code === 'ENOSPC' || error.code === 'EDQUOT')) {
    return new FileRequestError(507, toConnectError(error, subject ?? '').rawMessage);
  }
  const known = error instanceof ConnectError ? error : toConnectError(error, subject);
  return new FileRequestError(httpStatusOf(known.code), known.rawMessage);
}

/** Replies `{"message": …}`; what is left of the request's body is not waited for. */
export function replyFileError(req: IncomingMessage, res: ServerResponse, error: FileRequestError): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const body = JSON.stringify({ message: error.message });
  const headers: Record<string, string | number> = {
    ...error.headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  if (!req.complete) headers.connection = 'close';
  res.writeHead(error.status, headers);
  res.end(body);
}
