import { checkPlanLimits } from '../../../domain/billing/plans.ts';
import { anyUser, planOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../schemas/replies.ts';
import { sandboxOf } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { timeoutBody } from './timeout-body.ts';

/** `PUT /v1/sandboxes/{sandbox_id}`: sets a timeout that must exceed the current one. */
export function raiseSandboxTimeout(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'updateSandbox',
      tags: ['Sandboxes'],
      summary: "Raise a sandbox's timeout",
      description:
        'Accepts only a longer timeout; otherwise the error is `timeout_not_raised`. `POST …/timeout` also ' +
        'shortens.',
      params: sandboxPath,
      body: timeoutBody,
      response: {
        200: messageEnvelope('The timeout is raised'),
        ...failures(ofMutations, 'not_found', 'plan_limit_exceeded', 'timeout_not_raised', 'sandbox_ended'),
      },
    },
    handler: async (request) => {
      const sandbox = await sandboxOf(deps, request, request.params.sandbox_id);
      const { timeout } = request.body;
      checkPlanLimits(planOf(request, deps.plans), { timeoutSeconds: timeout });
      await deps.sandboxCommands.setTimeout(sandbox, { timeoutSeconds: timeout, mustRaise: true });
      return successMessage(`The timeout is now ${timeout} seconds`);
    },
  });
}
