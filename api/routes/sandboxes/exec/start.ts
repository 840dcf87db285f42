import { z } from 'zod';
import { requireCredentialId } from '../../../../db/accounts/identities.ts';
import { recordAccess } from '../../../../db/sandboxes/sandbox-routes.ts';
import { confirmExecution, forgetExecution, watchExecution } from '../../../../db/usage/watched-executions.ts';
import { AppError, type ErrorCode } from '../../../../domain/errors.ts';
import { timeoutAt } from '../../../../domain/sandboxes/clock.ts';
import { anyUser, requireCaller } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { onRequestEnd } from '../../../plugins/draining.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { withDefault } from '../../../schemas/fields.ts';
import { failures, ofIdempotency, ofMutations } from '../../../schemas/replies.ts';
import { envVars } from '../bodies.ts';
import { readSandboxRow, sandboxPath } from '../reply.ts';
import { askAgent, type DescribedExecution, executionTime, ofAgentCalls } from './agents.ts';
import { getExecFollower } from './follower.ts';
import { ExecEndedEarly, execResult } from './result.ts';
import { streamPath } from './stream.ts';

/** The kernel's limit for one argument. UTF-8 may need more bytes than characters; the agent refuses such a command. */
const maxCommandLength = 128 * 1024 - 1;

const maxStdinLength = 128 * 1024;

/** The time of the last access is stored with a precision of one minute. */
const accessRecordedMs = 60_000;

const execBody = z.object({
  command: z.string().min(1).max(maxCommandLength).describe('Run by `bash -c`, or by `sh -c` if the image has no bash'),
  cwd: withDefault(z.string().min(1).max(4096), '/'),
  env: withDefault(envVars, {}).describe("Added to the sandbox's environment; replaces variables of the same name"),
  stdin: withDefault(z.string().max(maxStdinLength), '').describe('The standard input of the command; default empty'),
  wait: withDefault(z.boolean(), false).describe('Reply when the command has ended, with its output'),
});

const started = z.object({
  stream_path: z.string().describe('With a token that opens only this stream; a repeated reply has no token'),
  started_at: executionTime,
  deadline: executionTime.describe('The command is killed at this time; later changes of the timeout do not change it'),
});

const finished = z.object({
  exit_code: z.int(),
  stdout: z.string().describe('As UTF-8'),
  stderr: z.string().describe('As UTF-8'),
  truncated: z.boolean().describe('True: there was more than 1 MiB of output, and its beginning is missing'),
  duration_ms: z.int().min(0),
});

/** `POST /v1/sandboxes/{sandbox_id}/exec`: a sandbox runs one command at a time. Without the envelope. */
export function startExec(api: Api, deps: ApiDependencies): void {
  const follower = getExecFollower(api, deps);
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/exec',
    config: {
      access: anyUser('by_role'),
      // A command, variables and input of 128 KiB each, with every character escaped.
      bodyBytes: 2560 * 1024,
      idempotency: {
        makes: 'execution',
        secrets: ['stream_path'],
        // The restored reply has the stream without a token, because the caller who repeats the request has the key.
        restore: (reply, request) =>
          'exit_code' in reply ? reply : { ...reply, stream_path: `${request.url.split('?', 1)[0]}/stream` },
      },
    },
    schema: {
      operationId: 'startExec',
      tags: ['Sandboxes'],
      summary: 'Run a command in a sandbox',
      description:
        'Runs one command at a time with `bash -c`. Without `wait`, the reply has the path of the output ' +
        'stream; with `wait`, ' +
        'it has the result. For several commands at once and for terminals, call the agent.',
      params: sandboxPath,
      headers: idempotencyHeaders,
      body: execBody,
      response: {
        200: finished.describe('With `wait`: the command has ended'),
        201: started.describe('It runs'),
        ...failures(
          ...(['exec_cancelled', 'exec_deadline_exceeded', 'exec_interrupted', 'sandbox_ended'] as const),
          ...(['exec_not_found', 'exec_stream_limit_reached'] as const),
          ...([ofMutations, ofIdempotency, ofAgentCalls] as const),
          ...(['invalid_cwd', 'exec_in_progress', 'exec_not_possible'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const { sandboxId } = sandbox;
      const startedAt = new Date();
      const limit = startedAt.getTime() + deps.settings.PLATFORM_EXEC_DEADLINE_SECONDS * 1000;
      const end = timeoutAt(sandbox.status, sandbox.timeoutFrom ?? null, sandbox.timeoutSeconds);
      const deadline = new Date(Math.min(limit, end?.getTime() ?? limit));
      const { wait, ...asked } = request.body;
      // The follower is counted first, so that no command begins if its caller may not wait for the result.
      if (wait) onRequestEnd(reply, follower.admit(requireCaller(request).userId, sandboxId));
      const execution = await createOnce<
        Pick<DescribedExecution, 'executionId' | 'startedAt' | 'deadline'>,
        'execution'
      >(request, 'execution', {
        find: async (id) => {
          const newest = await askAgent(deps, sandbox, (place) => deps.sandboxAgents.findExecution(place));
          return newest?.executionId === parseRunId(id) ? newest : null;
        },
        create: async (id) => {
          const wanted = {
            ...asked,
            executionId: parseRunId(id),
            owner: requireCaller(request).userId,
            startedAt: inNanoseconds(startedAt),
            deadline: inNanoseconds(deadline),
            timeoutMs: Math.max(1, deadline.getTime() - startedAt.getTime()),
          };
          await startWatched(deps, { ...wanted, sandboxId }, () =>
            askAgent(deps, sandbox, (place) => deps.sandboxAgents.startExecution(place, wanted)),
          );
          return wanted;
        },
      });
      if (startedAt.getTime() - (sandbox.lastAccessedAt?.getTime() ?? 0) >= accessRecordedMs) {
        await recordAccess(deps.orm.em, [sandboxId], startedAt);
      }
      if (wait) {
        const streamed = {
          executionId: execution.executionId,
          credentialId: requireCredentialId(requireCaller(request)),
        };
        const events = await follower.follow(sandbox, { ...streamed, after: 0 }, reply);
        const result = await execResult(events ?? noEvents()).catch(asRefusal);
        return reply.code(200).send({
          exit_code: result.exitCode,
          stdout: result.stdout,
          stderr: result.stderr,
          truncated: result.truncated,
          duration_ms: Math.max(0, Date.now() - Date.parse(execution.startedAt)),
        });
      }
      return reply.code(201).send({
        stream_path: streamPath(
          deps,
          sandboxId,
          { executionId: execution.executionId, credentialId: requireCredentialId(requireCaller(request)) },
          new Date(execution.deadline),
        ),
        started_at: execution.startedAt,
        deadline: execution.deadline,
      });
    },
  });
}

/** The id without its prefix: ids of events are `<id>-<number>`. */
function parseRunId(id: string): string {
  return id.slice(id.indexOf('-') + 1);
}

/** With these errors the agent gave no answer, so the command may be running. The watch will find out. */
const mayHaveStarted = new Set<ErrorCode>(['temporarily_unavailable', 'sandbox_not_running']);

/** Starts an execution. If a webhook subscribes to its end, the execution is watched from before its start. */
async function startWatched(
  deps: ApiDependencies,
  execution: Parameters<typeof watchExecution>[1],
  start: () => Promise<void>,
): Promise<void> {
  const isWatched = await watchExecution(deps.orm.em, execution);
  try {
    await start();
  } catch (error) {
    if (isWatched && error instanceof AppError && !mayHaveStarted.has(error.code))
      await forgetExecution(deps.orm.em, execution.executionId);
    throw error;
  }
  if (!isWatched) return;
  await confirmExecution(deps.orm.em, execution.executionId);
  deps.executionEndWatch.wake();
}

async function* noEvents(): AsyncGenerator<Buffer> {}

/** Why a command ended without an exit code. It is a map because an agent may send any code. */
const endings = new Map<string, ErrorCode>([
  ['cancelled', 'exec_cancelled'],
  ['deadline_exceeded', 'exec_deadline_exceeded'],
  ['sandbox_ended', 'sandbox_ended'],
]);

function asRefusal(error: unknown): never {
  if (!(error instanceof ExecEndedEarly)) throw error;
  throw new AppError(endings.get(error.code) ?? 'exec_interrupted', error.message, { cause: error });
}

/** The times of an execution in the format of the contract. The clocks have a precision of milliseconds. */
function inNanoseconds(time: Date): string {
  return time.toISOString().replace('Z', '000000Z');
}
