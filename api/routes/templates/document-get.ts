import { z } from 'zod';
import { findTemplateView } from '../../../db/templates/templates.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { queryFlag } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { documentSchema } from './template-document.ts';
import { templatePath } from './template-path.ts';

/** `GET /v1/templates/{template_id}/document`, as JSON or as a file. */
export function getTemplateDocument(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates/:template_id/document',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getTemplateDocument',
      tags: ['Templates'],
      summary: 'Read the document of a template',
      description: 'The document is Markdown. `download=true` returns it as a file.',
      params: templatePath,
      querystring: z.object({ download: queryFlag().describe('true: return only the Markdown, as a file') }),
      response: {
        200: {
          description: 'The document',
          content: {
            'application/json': { schema: envelope(documentSchema, 'The document') },
            'text/markdown': { schema: z.string() },
          },
        },
        ...failures('not_found', 'template_document_missing'),
      },
    },
    handler: async (request, reply) => {
      const { template_id: templateId } = request.params;
      const view = await findTemplateView(deps.orm.em.fork(), scopeOf(request), templateId);
      if (!view) throw notFound('Template');
      const { templateDocument: document, name } = view.template;
      if (!request.query.download) {
        return reply.send(success({ template_id: templateId, template_document: document ?? null }));
      }
      if (!document?.trim()) throw new AppError('template_document_missing', 'The template has no document');
      return reply
        .header('content-type', 'text/markdown; charset=utf-8')
        .header('content-disposition', `attachment; filename="${name}.md"`)
        .header('x-content-type-options', 'nosniff')
        .send(document);
    },
  });
}
