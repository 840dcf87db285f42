import { cancelImport } from '../../../db/templates/import-jobs.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { cancelledImportSchema, presentCancelledImport } from './import-jobs/import-job-schema.ts';
import { templatePath } from './template-path.ts';

/** `DELETE /v1/templates/{template_id}/import`. */
export function cancelTemplateImport(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/templates/:template_id/import',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'cancelTemplateImport',
      tags: ['Imports'],
      summary: 'Cancel the import of a template of your own',
      description:
        'Stops the newest copy of the template immediately. The template stays without an image and can be imported ' +
        'again.',
      params: templatePath,
      response: {
        200: envelope(cancelledImportSchema, 'The import is cancelled'),
        ...failures(ofMutations, 'not_found', 'import_not_active'),
      },
    },
    handler: async (request) => {
      const { template_id: templateId } = request.params;
      return success(presentCancelledImport(await cancelImport(deps.orm.em.fork(), scopeOf(request), { templateId })));
    },
  });
}
