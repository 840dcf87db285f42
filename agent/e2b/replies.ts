import type { IncomingMessage, ServerResponse } from 'node:http';
import { endEarly } from '../http/end-early.ts';
import type { FileRequestError } from '../transfer/file-error.ts';

export function replyJson(res: ServerResponse, body: unknown): void {
  const text = JSON.stringify(body);
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  res.end(text);
}

/** Replies `{"code": <status>, "message": …}`, even if the request was not read completely. */
export function replyFailure(req: IncomingMessage, res: ServerResponse, error: FileRequestError): void {
  const body = JSON.stringify({ code: error.status, message: error.message });
  endEarly(req, res, error.status, { ...error.headers, 'content-type': 'application/json' }, body);
}
