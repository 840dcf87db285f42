import type { IncomingMessage, ServerResponse } from 'node:http';
import { endEarly } from './end-early.ts';

const maxBodyBytes = 4 * 1024 * 1024;

/** Replies with a JSON body, even if the request's body was not read yet. */
export function replyJson(req: IncomingMessage, res: ServerResponse, status: number, body: unknown): void {
  endEarly(req, res, status, { 'content-type': 'application/json' }, JSON.stringify(body));
}

/** The request's body. @throws {TypeError} when it is too long, {SyntaxError} when it is not JSON */
export async function readJson(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  // A reply to a body that is too long drops the rest, for which the request has to stay readable.
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    length += chunk.length;
    if (length > maxBodyBytes) throw new TypeError('body too long');
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}
