import { deleteTemplate as removeTemplate } from '../../../db/templates/template-changes.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../schemas/replies.ts';
import { templatePath } from './schema.ts';

/** `DELETE /v1/templates/{template_id}`. Also removes its image, unless something else refers to it. */
export function deleteTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/templates/:template_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteTemplate',
      tags: ['Templates'],
      summary: 'Delete a template',
      description:
        'Its image is removed from the registry, unless another template or a sandbox uses it. A template from which ' +
        'a sandbox was made that still has a disk, even a paused or failed one, cannot be deleted.',
      params: templatePath,
      response: {
        200: messageEnvelope('The template is deleted'),
        ...failures(
          ofMutations,
          'not_found',
          'template_of_another_user',
          'template_in_use',
          'import_in_progress',
          'build_in_progress',
        ),
      },
    },
    handler: async (request) => {
      const by = { caller: requireCaller(request), scope: requireScope(request) };
      await removeTemplate(deps.orm.em.fork(), by, request.params.template_id);
      return successMessage('The template is deleted');
    },
  });
}
