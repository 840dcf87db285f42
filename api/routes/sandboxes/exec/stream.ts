import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { requireCredentialId, usableCredentials } from '../../../../db/accounts/identities.ts';
import { findSandboxRoute } from '../../../../db/sandboxes/sandbox-routes.ts';
import { clientKey } from '../../../../domain/client-address.ts';
import { AppError, notFound } from '../../../../domain/errors.ts';
import type { SandboxId } from '../../../../domain/ids.ts';
import { anyUserOrToken, requireCaller } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { sendEventStream } from '../../../event-streams.ts';
import { onRequestEnd } from '../../../plugins/draining.ts';
import { failures } from '../../../schemas/replies.ts';
import { readSandboxRow, sandboxPath } from '../reply.ts';
import { type AgentRow, askAgent, ofAgentCalls } from './agents.ts';
import { getExecFollower } from './follower.ts';
import type { StreamedExecution } from './tokens.ts';

/** A token opens its stream until this long after the execution's deadline, for readers who come back late. */
const tokenGraceMs = 600_000;

const headers = z.looseObject({
  'last-event-id': z
    .string()
    .max(128)
    .optional()
    .describe('The id of the last received event; the stream continues after it'),
});
const query = z.object({
  token: z
    .string()
    .max(1024)
    .optional()
    .describe('The token of `stream_path`, or an access token; replaces an API key'),
});

/** The address of an execution's stream, with a token that opens only this stream. */
export function streamPath(
  deps: ApiDependencies,
  sandboxId: SandboxId,
  execution: StreamedExecution,
  deadline: Date,
): string {
  const token = deps.execTokens.make(sandboxId, execution, new Date(deadline.getTime() + tokenGraceMs));
  return `/v1/sandboxes/${sandboxId}/exec/stream?token=${token}`;
}

/**
 * `GET /v1/sandboxes/{sandbox_id}/exec/stream`: the past and future output of a command as server-sent events. Any
 * number of clients may read it. Each may reconnect with `Last-Event-ID`, also to another replica.
 */
export function streamExec(api: Api, deps: ApiDependencies): void {
  const follower = getExecFollower(api, deps);
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/exec/stream',
    config: { access: anyUserOrToken('by_role') },
    exposeHeadRoute: false,
    schema: {
      operationId: 'streamExec',
      tags: ['Sandboxes'],
      summary: 'Follow the output of a command',
      description:
        'Server-sent events: `ready`, `start`, `stdout` and `stderr` (`data_b64`), `keepalive`, then `end` or ' +
        '`error`. With `Last-Event-ID`, the stream continues after that event.',
      params: sandboxPath,
      querystring: query,
      headers,
      response: {
        200: {
          description: 'Events `ready`, `start`, `stdout`, `stderr`, `keepalive`, and `end` or `error` as the last',
          content: { 'text/event-stream': { schema: z.string() } },
        },
        204: z.null().describe('There are no events after `Last-Event-ID`; event sources do not reconnect'),
        ...failures(ofAgentCalls, 'exec_not_found', 'exec_stream_limit_reached'),
      },
    },
    handler: async (request, reply) => {
      // Pages of every origin may read the stream with the token in its address. The header admits no cookies.
      reply.header('access-control-allow-origin', '*');
      const { row, executionId, credentialId } = await findRun(
        deps,
        request,
        request.params.sandbox_id,
        request.query.token,
      );
      const after = lastSeen(request.headers['last-event-id'], executionId);
      // The address with its token is enough to read the stream, so such readers are counted by client address.
      const caller = request.identity ? request.identity.userId : clientKey(request.ip);
      onRequestEnd(reply, follower.admit(caller, row.sandboxId));
      const stream = await follower.follow(row, { executionId, credentialId, after }, reply);
      if (!stream) return reply.code(204).send(null);
      return sendEventStream(reply, deps, stream);
    },
  });
}

/** The execution that the token opens, or the caller's newest. @throws {AppError} */
async function findRun(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: SandboxId,
  token: string | undefined,
): Promise<{ row: AgentRow } & StreamedExecution> {
  // `authentication` has already checked an access token in the address.
  if (token !== undefined && !request.identity) {
    const execution = deps.execTokens.open(sandboxId, token);
    if (!execution || !(await usableCredentials(deps.orm.em, [execution.credentialId])).size) {
      throw new AppError('unauthenticated', 'The token is not valid for this stream, or has expired');
    }
    const route = await findSandboxRoute(deps.orm.em, sandboxId);
    if (!route) throw notFound('Sandbox');
    return { row: { ...route, agentAddress: route.address }, ...execution };
  }
  const row = await readSandboxRow(deps, request, sandboxId);
  const execution = await askAgent(deps, row, (place) => deps.sandboxAgents.findExecution(place));
  const caller = requireCaller(request);
  if (execution?.owner !== caller.userId) throw noExecution();
  return { row, executionId: execution.executionId, credentialId: requireCredentialId(caller) };
}

/**
 * The number of the last event that the reader has. @throws {AppError} `exec_not_found` when it is an event of another
 * execution
 */
function lastSeen(lastEventId: string | undefined, executionId: string): number {
  const [, execution, sequence] = /^(\w+)-(\d{1,15})$/.exec(lastEventId ?? '') ?? [];
  if (execution !== undefined && execution !== executionId) throw noExecution();
  return Number(sequence ?? 0);
}

function noExecution(): AppError {
  return new AppError('exec_not_found', 'No such command is running in the sandbox');
}
