import type { IncomingMessage } from 'node:http';
import type zlib from 'node:zlib';
import { Code } from '@connectrpc/connect';
import { ConnectError } from './connect-error.ts';
import { maxMessageBytes } from './procedure.ts';

/** Shorter replies are not compressed. */
const minBytes = 1024;

/** zlib is loaded when the first client uses it. */
function gzip(): typeof zlib {
  return process.getBuiltinModule('node:zlib');
}

/**
 * Whether the following data is compressed.
 * @throws {ConnectError} `unimplemented` for other encodings than gzip
 */
export function isGzip(encoding: string | string[] | undefined): boolean {
  if (encoding === undefined || encoding === 'identity' || encoding === '') return false;
  if (encoding === 'gzip') return true;
  throw new ConnectError(`unknown compression "${encoding}": supported are gzip, identity`, Code.Unimplemented);
}

/**
 * @throws {ConnectError} `resource_exhausted` when the result would exceed the limit of a message, `invalid_argument`
 */
export function decompress(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gzip().gunzip(bytes, { maxOutputLength: maxMessageBytes }, (error, result) => {
      if (!error) resolve(result);
      else if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
        reject(new ConnectError(`message is over the limit of ${maxMessageBytes} bytes`, Code.ResourceExhausted));
      } else reject(new ConnectError('malformed gzip', Code.InvalidArgument));
    });
  });
}

/** Whether the client of a unary call accepts a compressed reply, and the reply is long enough. */
export function wantsGzip(req: IncomingMessage, replyBytes: number): boolean {
  const accepted = req.headers['accept-encoding'];
  if (accepted === undefined || replyBytes < minBytes) return false;
  return String(accepted)
    .split(',')
    .some((item) => /^\s*gzip\s*(;\s*q=(1|0?\.\d*[1-9]\d*)\s*)?$/i.test(item));
}

export function compress(bytes: Buffer | string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gzip().gzip(bytes, (error, result) => (error ? reject(error) : resolve(result)));
  });
}
