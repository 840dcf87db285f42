import { z } from 'zod';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';
import { optionalBody, withDefault } from '../../schemas/fields.ts';
import { fullSandbox, sandboxOf } from './read-sandbox.ts';
import { notAvailable } from './refuse-unavailable.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';

const resumeBody = optionalBody(
  z.object({
    is_async: withDefault(z.boolean(), false).describe('Answer at `resuming` instead of `running`'),
    best_effort_oss: withDefault(z.boolean(), false).describe('Resume even if mounts fail'),
    object_storage: withDefault(z.record(z.string(), z.unknown()), {}).describe('Changes are not available yet (501)'),
  }),
);

const resuming = z
  .object({ sandbox_id: z.string(), status: z.literal('resuming'), message: z.string() })
  .meta({ id: 'ResumingSandbox' });

/** `POST /v1/sandboxes/{sandbox_id}/resume` (section 4.1). */
export function resumeSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/resume',
    schema: {
      operationId: 'resumeSandbox',
      tags: ['Sandboxes'],
      summary: 'Resume a paused sandbox',
      params: sandboxPath,
      body: resumeBody,
      response: {
        200: envelope(z.union([sandboxSchema, resuming]), 'The sandbox, or with is_async that it is resuming'),
        ...failures(
          ofMutations,
          ...(['not_found', 'sandbox_not_paused', 'sandbox_busy', 'sandbox_ended', 'resume_failed'] as const),
          ...(['concurrent_limit_reached', 'no_capacity', 'host_unavailable'] as const),
          ...(['not_available_yet'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      if (Object.keys(request.body.object_storage).length > 0) {
        throw notAvailable('object_storage', 'Changes of object storage mounts are');
      }
      const isAsync = request.body.is_async;
      await deps.sandboxCommands.resume(sandbox, { wait: !isAsync });
      if (!isAsync) return success(await fullSandbox(deps, request, sandboxId));
      return success({ sandbox_id: sandboxId, status: 'resuming' as const, message: 'The sandbox is resuming' });
    },
  });
}
