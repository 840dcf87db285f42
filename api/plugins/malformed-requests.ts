import { randomUUID } from 'node:crypto';
import type { FastifyServerOptions } from 'fastify';
import { AppError } from '../../domain/errors.ts';
import { errorBody } from './errors.ts';

/** Answers what is not HTTP at all in the same shape as everything else, then closes. */
export const onMalformedRequest: NonNullable<FastifyServerOptions['clientErrorHandler']> = (error, socket) => {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) {
    const requestId = randomUUID();
    const refused = new AppError('validation_failed', 'The request is not valid HTTP, or its headers are too large');
    const body = JSON.stringify(errorBody(refused, requestId));
    socket.write(
      `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-Id: ${requestId}\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroy();
};
