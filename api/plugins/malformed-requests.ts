import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyServerOptions } from 'fastify';
import { AppError } from '../../domain/errors.ts';
import { unparsedRequestLine } from '../../platform/config/unknown-methods.ts';
import { errorBody, noSuchRoute } from './errors.ts';

type Refusal = ReturnType<typeof noSuchRoute>;

/** Replies to requests that Node cannot parse in the same form as for other errors, then closes the connection. */
export const onMalformedRequest: NonNullable<FastifyServerOptions['clientErrorHandler']> = function (
  this: FastifyInstance,
  error,
  socket,
) {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) {
    const requestId = randomUUID();
    const refusal = unknownMethod(this, error) ?? {
      error: new AppError('validation_failed', 'The request is not valid HTTP, or its headers are too large'),
    };
    const body = JSON.stringify(errorBody(refusal.error, requestId));
    socket.write(
      `HTTP/1.1 ${statusLine[refusal.error.status]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `X-Request-Id: ${requestId}\r\n${refusal.allow ? `Allow: ${refusal.allow}\r\n` : ''}` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroy();
};

const statusLine: Record<number, string> = {
  400: '400 Bad Request',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
};

function unknownMethod(app: FastifyInstance, error: { code?: string; rawPacket?: unknown }): Refusal | null {
  const line = unparsedRequestLine(error);
  return line && noSuchRoute(app, line.method, line.target);
}
