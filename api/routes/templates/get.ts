import { findTemplateView } from '../../../db/templates/templates.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { templatePath } from './template-path.ts';
import { presentTemplate, templateSchema } from './template-schema.ts';

/** `GET /v1/templates/{template_id}`. */
export function getTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates/:template_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getTemplate',
      tags: ['Templates'],
      summary: 'Read a template',
      description: 'Returns all fields, with the template that it was made from.',
      params: templatePath,
      response: { 200: envelope(templateSchema, 'The template'), ...failures('not_found') },
    },
    handler: async (request) => {
      const view = await findTemplateView(deps.orm.em.fork(), scopeOf(request), request.params.template_id);
      if (!view) throw notFound('Template');
      return success(presentTemplate(view, callerOf(request).accountId));
    },
  });
}
