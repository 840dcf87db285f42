import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { SandboxId } from '../../domain/ids.ts';
import { replacedRequestId } from './request-ids.ts';

/** Logs one line per request, without headers, query or body, because those may contain secrets. */
export const requestLogs = fp(
  async (app) => {
    app.addHook('onResponse', async (request, reply) => {
      const line = {
        client_request_id: replacedRequestId(request.raw),
        method: request.method,
        path: pathOf(request),
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        duration_ms: Math.round(reply.elapsedTime * 10) / 10,
        remote_address: request.ip,
        account_id: request.identity?.accountId,
        user_id: request.identity?.userId,
        key_id: request.identity?.keyId,
        session_id: request.identity?.sessionId,
        workflow_id: workflowIdOf(request),
      };
      if (request.routeOptions.config.quiet && reply.statusCode < 500) request.log.debug(line, 'request');
      else request.log.info(line, 'request');
    });
  },
  { name: 'request-logs', dependencies: ['authentication'] },
);

/** The path without the codec server's token, which a mistyped path may contain too. */
function pathOf(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0]!;
  return path.startsWith('/codec/') ? '/codec/…' : path;
}

/** A sandbox's id is its workflow's id, so one search finds both the request and the history. */
function workflowIdOf(request: FastifyRequest): string | undefined {
  if (request.workflowId) return request.workflowId;
  const params = request.params as { sandbox_id?: SandboxId } | undefined;
  return params?.sandbox_id;
}
