import { z } from 'zod';
import { recordAccess } from '../../../db/repositories/sandbox-routes.ts';
import { timeoutAt } from '../../../domain/sandbox-clock.ts';
import { anyUser, callerOf } from '../../access.ts';
import { createOnce } from '../../create-once.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { type DescribedRun, runTime } from '../../sandbox-agents.ts';
import { failures, ofIdempotency, ofMutations } from '../../schemas/failures.ts';
import { withDefault } from '../../schemas/fields.ts';
import { envVars } from './create-body.ts';
import { askAgent, ofAgentCalls } from './exec-agent.ts';
import { streamPath } from './exec-stream.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';

/** The kernel takes no longer argument; UTF-8 may need more bytes than characters, and is then refused by the agent. */
const maxCommandLength = 128 * 1024 - 1;

/** An access is noted to the minute. */
const accessRecordedMs = 60_000;

const execBody = z.object({
  command: z.string().min(1).max(maxCommandLength).describe('Run by `bash -c`'),
  cwd: withDefault(z.string().min(1).max(4096), '/'),
  env: withDefault(envVars, {}).describe("Over the sandbox's environment"),
});

const started = z.object({
  stream_path: z.string().describe('With a token that opens this stream alone; a repeated reply has none'),
  started_at: runTime,
  deadline: runTime.describe('The command is killed then; later changes of the timeout do not move it'),
});

/** `POST /v1/sandboxes/{sandbox_id}/exec` (section 4.1): one command at a time; without the envelope. */
export function startExec(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/exec',
    config: {
      access: anyUser('by_role'),
      // A command of 128 KiB and as much of variables, every character escaped.
      bodyBytes: 1024 * 1024,
      idempotency: {
        makes: 'execRun',
        secrets: ['stream_path'],
        // The same stream, without a token of its own: whoever asks again has the key.
        restore: (told, request) => ({ ...told, stream_path: `${request.url.split('?', 1)[0]}/stream` }),
      },
    },
    schema: {
      operationId: 'startExec',
      tags: ['Sandboxes'],
      summary: 'Run a command in a sandbox',
      params: sandboxPath,
      headers: idempotencyHeaders,
      body: execBody,
      response: {
        201: started.describe('It runs'),
        ...failures(
          ...([ofMutations, ofIdempotency, ofAgentCalls] as const),
          ...(['invalid_cwd', 'exec_in_progress', 'exec_not_possible'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
      const { sandboxId } = sandbox;
      const startedAt = new Date();
      const limit = startedAt.getTime() + deps.settings.PLATFORM_EXEC_DEADLINE_SECONDS * 1000;
      const end = timeoutAt(sandbox.status, sandbox.timeoutFrom ?? null, sandbox.timeoutSeconds);
      const deadline = new Date(Math.min(limit, end?.getTime() ?? limit));
      const run = await createOnce<Pick<DescribedRun, 'runId' | 'startedAt' | 'deadline'>>(request, 'execRun', {
        find: async (id) => {
          const newest = await askAgent(deps, sandbox, (place) => deps.sandboxAgents.findRun(place));
          return newest?.runId === runIdOf(id) ? newest : null;
        },
        create: async (id) => {
          const wanted = {
            ...request.body,
            runId: runIdOf(id),
            owner: callerOf(request).userId,
            startedAt: inNanoseconds(startedAt),
            deadline: inNanoseconds(deadline),
            timeoutMs: Math.max(1, deadline.getTime() - startedAt.getTime()),
          };
          await askAgent(deps, sandbox, (place) => deps.sandboxAgents.startRun(place, wanted));
          return wanted;
        },
      });
      if (startedAt.getTime() - (sandbox.lastAccessedAt?.getTime() ?? 0) >= accessRecordedMs) {
        await recordAccess(deps.orm.em, [sandboxId], startedAt);
      }
      return reply.code(201).send({
        stream_path: streamPath(deps, sandboxId, run.runId, new Date(run.deadline)),
        started_at: run.startedAt,
        deadline: run.deadline,
      });
    },
  });
}

/** The id without its prefix: ids of events are `<run>-<number>`. */
function runIdOf(id: string): string {
  return id.slice(id.indexOf('-') + 1);
}

/** As the contract writes the times of a run; clocks here tell milliseconds. */
function inNanoseconds(time: Date): string {
  return time.toISOString().replace('Z', '000000Z');
}
