import { z } from 'zod';
import { checkPlanLimits } from '../../../domain/billing/plans.ts';
import { anyUser, planOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optional, optionalBody } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, ofStarts, success } from '../../schemas/replies.ts';
import { fullSandbox, sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';
import { timeoutSeconds } from './timeout-body.ts';

const connectBody = optionalBody(
  z.object({
    timeout: optional(timeoutSeconds()).describe('Counts anew from now, and may be shorter; kept when left out'),
  }),
);

/** `POST /v1/sandboxes/{sandbox_id}/connect`: makes sure that the sandbox runs. Resumes a paused one. */
export function connectSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/connect',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'connectSandbox',
      tags: ['Sandboxes'],
      summary: 'Resume a sandbox if it is paused, and read it',
      description:
        'Waits for a running operation, resumes a paused sandbox, and replies when it runs. `timeout` counts from now.',
      params: sandboxPath,
      body: connectBody,
      response: {
        200: envelope(sandboxSchema, 'The running sandbox'),
        ...failures(
          ofMutations,
          ...([
            'not_found',
            'plan_limit_exceeded',
            'sandbox_ended',
            'sandbox_busy',
            'resume_failed',
            'agent_not_answering',
          ] as const),
          ofStarts,
        ),
      },
    },
    handler: async (request) => {
      const { sandbox_id: sandboxId } = request.params;
      const sandbox = await sandboxOf(deps, request, sandboxId);
      const { timeout } = request.body;
      checkPlanLimits(planOf(request, deps.plans), { timeoutSeconds: timeout });
      await deps.sandboxCommands.connect(sandbox, { timeoutSeconds: timeout ?? null });
      return success(await fullSandbox(deps, request, sandboxId));
    },
  });
}
