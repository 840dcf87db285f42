import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { fullSandbox } from './read-sandbox.ts';
import { sandboxPath } from './sandbox-path.ts';
import { sandboxSchema } from './sandbox-schema.ts';

/** `GET /v1/sandboxes/{sandbox_id}` with every field. */
export function getSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandbox',
      tags: ['Sandboxes'],
      summary: 'Read a sandbox',
      description:
        'Returns all fields, also of a sandbox that has ended. A deleted sandbox is 404 when its data is removed.',
      params: sandboxPath,
      response: { 200: envelope(sandboxSchema, 'The sandbox'), ...failures('not_found') },
    },
    handler: async (request) => success(await fullSandbox(deps, request, request.params.sandbox_id)),
  });
}
