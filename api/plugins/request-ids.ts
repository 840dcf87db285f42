import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';

/** A UUID, or a trace id of W3C and OpenTelemetry. */
const usualForm = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/i;
const fitsIntoLogLine = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/**
 * The caller's `X-Request-Id` if it is a UUID or a trace id, otherwise a new id. Request ids are unencrypted in the
 * headers of workflow histories, where all other data of a caller is encrypted. So a caller cannot choose a free text.
 */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && usualForm.test(given) ? given : randomUUID();
}

/**
 * The caller's `X-Request-Id` that was replaced, for the log. Undefined if there was none or it has unusual characters.
 */
export function replacedRequestId(request: IncomingMessage): string | undefined {
  const given = request.headers['x-request-id'];
  if (typeof given !== 'string' || usualForm.test(given)) return undefined;
  return fitsIntoLogLine.test(given) ? given : undefined;
}

/** Puts `X-Request-Id` on every reply. */
export const requestIds = fp(
  async (app) => {
    app.addHook('onRequest', async (request, reply) => {
      reply.header('x-request-id', request.id);
    });
  },
  { name: 'request-ids' },
);
