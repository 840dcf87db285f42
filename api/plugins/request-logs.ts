import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { SandboxId } from '../../domain/ids.ts';
import { logDestination } from '../../platform/config/log-destination.ts';

/** Logs one line per request, without headers, query or body, because those may contain secrets. */
export const requestLogs = fp(
  async (app) => {
    app.addHook('onResponse', async (request, reply) => {
      const line = {
        client_request_id: replacedRequestId(request.raw),
        method: request.method,
        path: formatPath(request),
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        duration_ms: Math.round(reply.elapsedTime * 10) / 10,
        remote_address: request.ip,
        account_id: request.identity?.accountId,
        user_id: request.identity?.userId,
        key_id: request.identity?.keyId,
        session_id: request.identity?.sessionId,
        workflow_id: findWorkflowId(request),
      };
      if (request.routeOptions.config.quiet && reply.statusCode < 500) request.log.debug(line, 'request');
      else request.log.info(line, 'request');
    });
  },
  { name: 'request-logs', dependencies: ['authentication'] },
);

/** The path without the codec server's token, which a mistyped path may contain too. */
function formatPath(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0]!;
  return path.startsWith('/codec/') ? '/codec/…' : path;
}

/** A sandbox's id is its workflow's id, so one search finds both the request and the history. */
function findWorkflowId(request: FastifyRequest): string | undefined {
  if (request.workflowId) return request.workflowId;
  const params = request.params as { sandbox_id?: SandboxId } | undefined;
  return params?.sandbox_id;
}

/** A UUID, or a trace id of W3C and OpenTelemetry. */
const usualForm = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/i;
const fitsIntoLogLine = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/**
 * The caller's `X-Request-Id` if it is a UUID or a trace id, otherwise a new id. Request ids are unencrypted in the
 * headers of workflow histories, where all other data of a caller is encrypted. So a caller cannot choose a free text.
 */
export function readRequestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && usualForm.test(given) ? given : randomUUID();
}

/**
 * The caller's `X-Request-Id` that was replaced, for the log. Undefined if there was none or it has unusual characters.
 */
function replacedRequestId(request: IncomingMessage): string | undefined {
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

/** The API's log: one JSON line per entry, without the callers' secrets. */
export function createApiLogger(level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      name: 'api',
      redact: {
        paths: ['*.authorization', '*.api_key', '*.e2b_api_key', '*["x-api-key"]', '*.envd_access_token'],
        censor: '[secret]',
      },
    },
    destination ?? logDestination(),
  );
}
