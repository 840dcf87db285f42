import { z } from 'zod';
import { patchMounts, requireFresh } from '../../../domain/sandboxes/object-storage.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalBody, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, ofStarts, success } from '../../schemas/replies.ts';
import { requireUsable } from './mount-patch.ts';
import { mountPatch } from './object-storage-body.ts';
import { fullSandbox, sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';

const resumeBody = optionalBody(
  z.object({
    is_async: withDefault(z.boolean(), false).describe('Reply when the sandbox is `resuming`, instead of `running`'),
    best_effort_oss: withDefault(z.boolean(), false).describe('Resume even if mounts fail'),
    object_storage: mountPatch.describe(
      'One of remove_all, disable_all and mounts; without it, the mounts do not change',
    ),
  }),
);

const resuming = z
  .object({ sandbox_id: z.string(), status: z.literal('resuming'), message: z.string() })
  .meta({ id: 'ResumingSandbox' });

/** `POST /v1/sandboxes/{sandbox_id}/resume`. */
export function resumeSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/resume',
    // 32 mounts with their credentials.
    config: { access: anyUser('by_role'), bodyBytes: 512 * 1024 },
    schema: {
      operationId: 'resumeSandbox',
      tags: ['Sandboxes'],
      summary: 'Resume a paused sandbox',
      description:
        'Frozen processes continue. If they were lost, for example in a restart of the host, the sandbox ' +
        'starts again on ' +
        'the same disk. A resume is checked against plan, quota and capacity like a create.',
      params: sandboxPath,
      body: resumeBody,
      response: {
        200: envelope(z.union([sandboxSchema, resuming]), 'The sandbox; with is_async its status is `resuming`'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'sandbox_not_paused',
            'sandbox_busy',
            'sandbox_ended',
            'resume_failed',
            'agent_not_answering',
          ] as const),
          ofStarts,
          'direct_mount_not_possible',
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      const { is_async: isAsync, best_effort_oss: bestEffort, object_storage: patch } = request.body;
      requireUsable(patch, sandbox, deps.settings);
      // The host checks its row again later. This check tells the caller before any work begins.
      if (sandbox.status === 'paused') requireFresh(patchMounts(sandbox.objectStorage, patch), bestEffort);
      const storage = { sealedPatch: deps.sealFor(sandboxId, patch), bestEffort };
      const changes = patch.kind !== 'none' || bestEffort;
      await deps.sandboxCommands.resume(sandbox, { wait: !isAsync, ...(changes && { storage }) });
      if (!isAsync) return success(await fullSandbox(deps, request, sandboxId));
      return success({ sandbox_id: sandboxId, status: 'resuming' as const, message: 'The sandbox is resuming' });
    },
  });
}
