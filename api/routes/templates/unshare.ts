import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { changeSharing, sharingSchema } from './change-sharing.ts';
import { templatePath } from './template-path.ts';

/** `POST /v1/templates/{template_id}/unshare`. Sandboxes that other users made of it continue. */
export function unshareTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/unshare',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'unshareTemplate',
      tags: ['Templates'],
      summary: 'Make a shared template private again',
      description:
        'Its image moves back to the project of its owner. Sandboxes that other users made from it continue.',
      params: templatePath,
      response: {
        200: envelope(sharingSchema, 'The template is private'),
        ...failures(
          ...([ofMutations, 'not_found', 'template_of_another_user', 'template_not_shareable'] as const),
          ...(['import_in_progress', 'build_in_progress', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const change = { visibility: 'private' as const, message: 'The template is private' };
      return success(await changeSharing(deps, request, request.params.template_id, change));
    },
  });
}
