import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { findSandboxRoute } from '../../../db/repositories/sandbox-routes.ts';
import { findSandboxStatus } from '../../../db/repositories/sandbox-status.ts';
import { clientKey } from '../../../domain/client-address.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { isOver } from '../../../domain/sandbox-state.ts';
import { anyUserOrToken, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { type ExecFailure, execStream } from '../../exec-stream.ts';
import { ExecStreamLimits } from '../../exec-stream-limits.ts';
import { onRequestEnd } from '../../request-end.ts';
import { failures } from '../../schemas/failures.ts';
import { type AgentRow, askAgent, ofAgentCalls } from './exec-agent.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

const keepaliveMs = 15_000;
const stalledReaderMs = 60_000;
/** A silent agent is asked about the run once a minute, and given up when it does not confirm it three times. */
const silencesPerQuestion = 4;
const unconfirmedLimit = 3;
/** A token opens its stream this long after the run's deadline, for who comes back late. */
const tokenGraceMs = 600_000;

const headers = z.looseObject({
  'last-event-id': z.string().max(128).optional().describe('Of the last event received: the stream goes on behind it'),
});
const query = z.object({ token: z.string().max(512).optional().describe('Of `stream_path`; in the place of a key') });

/** Address of a run's stream, with a token for it alone. */
export function streamPath(deps: ApiDependencies, sandboxId: string, runId: string, deadline: Date): string {
  const token = deps.execTokens.make(sandboxId, runId, new Date(deadline.getTime() + tokenGraceMs));
  return `/v1/sandboxes/${sandboxId}/exec/stream?token=${token}`;
}

/**
 * `GET /v1/sandboxes/{sandbox_id}/exec/stream` (sections 4.1, 5 and 6.2): what a command has told and tells, as
 * server-sent events. Many may read; each may come back with `Last-Event-ID`, also to another replica.
 */
export function streamExec(api: Api, deps: ApiDependencies): void {
  const { PLATFORM_EXEC_STREAMS_PER_CALLER: perCaller, PLATFORM_EXEC_STREAMS_PER_SANDBOX: perSandbox } = deps.settings;
  const limits = new ExecStreamLimits(perCaller, perSandbox);
  const closing = new AbortController();
  api.addHook('preClose', async () => closing.abort());
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/exec/stream',
    config: { access: anyUserOrToken('by_role') },
    exposeHeadRoute: false,
    schema: {
      operationId: 'streamExec',
      tags: ['Sandboxes'],
      summary: 'Follow the output of a command',
      params: sandboxPath,
      querystring: query,
      headers,
      response: {
        200: {
          description: 'Events `ready`, `start`, `stdout`, `stderr`, `keepalive`, and `end` or `error` as the last',
          content: { 'text/event-stream': { schema: z.string() } },
        },
        204: z.null().describe('Nothing comes behind `Last-Event-ID`: event sources do not ask again'),
        ...failures(ofAgentCalls, 'exec_not_found', 'exec_stream_limit_reached'),
      },
    },
    handler: async (request, reply) => {
      // The token in the address is all it takes, so a page of any origin may use it; cookies play no part.
      reply.header('access-control-allow-origin', '*');
      const { row, runId } = await runOf(deps, request, request.params.sandbox_id, request.query.token);
      const after = lastSeen(request.headers['last-event-id'], runId);
      // A token carries no user, so its readers count by address.
      const caller = request.identity ? request.identity.userId : clientKey(request.ip);
      onRequestEnd(reply, limits.add(caller, row.sandboxId));
      const events = await askAgent(deps, row, (place) => deps.sandboxAgents.readRun(place, runId, after));
      if (!events) return reply.code(204).send(null);
      reply.raw.once('close', () => events.destroy());
      if (reply.raw.destroyed) events.destroy();
      reply.raw.setTimeout(deps.stalledReaderMs ?? stalledReaderMs, () => reply.raw.destroy());
      const stream = execStream(events, {
        keepaliveMs,
        signal: closing.signal,
        onSilence: silenceWatch(deps, row.sandboxId, runId),
        onBreak: async () => (reply.raw.destroyed ? null : ((await endOf(deps, row.sandboxId)) ?? interrupted)),
      });
      return reply
        .headers({ 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
        .type('text/event-stream')
        .send(Readable.from(stream, { objectMode: false }));
    },
  });
}

const interrupted: ExecFailure = {
  code: 'exec_interrupted',
  message: 'The connection to the sandbox broke off; the command may go on',
};

/** The run that the token opens, or the caller's newest. @throws {AppError} */
async function runOf(
  deps: ApiDependencies,
  request: FastifyRequest,
  sandboxId: string,
  token: string | undefined,
): Promise<{ row: AgentRow; runId: string }> {
  if (token !== undefined) {
    const runId = deps.execTokens.open(sandboxId, token);
    if (runId === null) throw new AppError('unauthenticated', 'The token is not valid for this stream, or has expired');
    const route = await findSandboxRoute(deps.orm.em, sandboxId);
    if (!route) throw notFound('Sandbox');
    return { row: { ...route, agentAddress: route.address }, runId };
  }
  const row = await sandboxOf(deps, request, sandboxId);
  const run = await askAgent(deps, row, (place) => deps.sandboxAgents.findRun(place));
  if (run?.owner !== callerOf(request).userId) throw noRun();
  return { row, runId: run.runId };
}

/** The number of the last event the reader has. @throws {AppError} `exec_not_found` when it is another run's */
function lastSeen(lastEventId: string | undefined, runId: string): number {
  const [, run, sequence] = /^(\w+)-(\d{1,15})$/.exec(lastEventId ?? '') ?? [];
  if (run !== undefined && run !== runId) throw noRun();
  return Number(sequence ?? 0);
}

/**
 * What to do at each silence. A command may be silent for as long as it runs and a paused sandbox for days, so silence
 * ends a stream only when the sandbox has ended, or runs and its agent no longer confirms the run.
 */
function silenceWatch(deps: ApiDependencies, sandboxId: string, runId: string): () => Promise<ExecFailure | null> {
  let silences = 0;
  let unconfirmed = 0;
  return async () => {
    const route = await findSandboxRoute(deps.orm.em, sandboxId);
    if (route?.status !== 'running') {
      unconfirmed = 0;
      return endOf(deps, sandboxId);
    }
    silences += 1;
    if (silences % silencesPerQuestion !== 0) return null;
    const confirmed = await isRunThere(deps, { ...route, agentAddress: route.address }, runId);
    unconfirmed = confirmed ? 0 : unconfirmed + 1;
    return unconfirmed < unconfirmedLimit ? null : interrupted;
  };
}

async function isRunThere(deps: ApiDependencies, row: AgentRow, runId: string): Promise<boolean> {
  try {
    return (await askAgent(deps, row, (place) => deps.sandboxAgents.findRun(place)))?.runId === runId;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** Null: it lives on, frozen perhaps. */
async function endOf(deps: ApiDependencies, sandboxId: string): Promise<ExecFailure | null> {
  const now = await findSandboxStatus(deps.orm.em, sandboxId);
  if (now && now.status !== 'terminating' && !isOver(now.status)) return null;
  return { code: 'sandbox_ended', message: `The sandbox is ${now?.status ?? 'deleted'}` };
}

function noRun(): AppError {
  return new AppError('exec_not_found', 'No such command is running in the sandbox');
}
