import { z } from 'zod';
import { patchMounts, requireAllCredentials } from '../../../domain/sandboxes/object-storage.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { optionalBody, withDefault } from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofStarts, success } from '../../schemas/replies.ts';
import { requireUsable } from './mount-patch.ts';
import { mountPatch } from './object-storage-body.ts';
import { fullSandbox, sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';

const restartBody = optionalBody(
  z.object({
    best_effort_oss: withDefault(z.boolean(), false).describe('Restart even if mounts fail or lack credentials'),
    object_storage: mountPatch.describe(
      'As for a resume. All mounts end with the processes, so each needs credentials',
    ),
  }),
);

/**
 * `POST /v1/sandboxes/{sandbox_id}/restart`: restarts a sandbox that no longer responds. No other route discards
 * running processes and keeps the disk. It needs no cooperation from inside the sandbox.
 */
export function restartSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/restart',
    config: { access: anyUser('by_role'), idempotency: { makes: 'request' } },
    schema: {
      operationId: 'restartSandbox',
      tags: ['Sandboxes'],
      summary: 'Restart a sandbox',
      description:
        'Ends the processes of a running or paused sandbox and starts it again on its disk. Memory is lost, ' +
        'the disk is kept.',
      headers: idempotencyHeaders,
      params: sandboxPath,
      body: restartBody,
      response: {
        200: envelope(sandboxSchema, 'The sandbox, running, with the reason `restarted`'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'not_found', 'sandbox_busy', 'sandbox_ended', 'restart_failed'] as const),
          ofStarts,
          'host_disk_full',
          'direct_mount_not_possible',
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      const { best_effort_oss: bestEffort, object_storage: patch } = request.body;
      requireUsable(patch, sandbox, deps.settings);
      // The host checks its row again later. This check tells the caller before any work begins.
      if (sandbox.status === 'running' || sandbox.status === 'paused') {
        requireAllCredentials(patchMounts(sandbox.objectStorage, patch), bestEffort);
      }
      const changes = patch.kind !== 'none' || bestEffort;
      const storage = changes ? { sealedPatch: deps.sealFor(sandboxId, patch), bestEffort } : null;
      await deps.sandboxCommands.restart(sandbox, { storage });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}
