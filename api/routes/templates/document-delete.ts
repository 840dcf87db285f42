import { changeTemplate } from '../../../db/templates/template-changes.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { documentSchema } from './template-document.ts';
import { templatePath } from './template-path.ts';

/** `DELETE /v1/templates/{template_id}/document`. */
export function deleteTemplateDocument(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/templates/:template_id/document',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'deleteTemplateDocument',
      tags: ['Templates'],
      summary: 'Remove the document of a template',
      description: 'The template stays.',
      params: templatePath,
      response: {
        200: envelope(documentSchema, 'The document is removed, or there was none'),
        ...failures(ofMutations, 'not_found', 'template_of_another_user'),
      },
    },
    handler: async (request) => {
      const by = { caller: callerOf(request), scope: scopeOf(request) };
      const { template_id: templateId } = request.params;
      await changeTemplate(deps.orm.em.fork(), by, templateId, () => ({ templateDocument: null }));
      return success({ template_id: templateId, template_document: null }, 'The document is removed');
    },
  });
}
