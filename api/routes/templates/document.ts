import { z } from 'zod';
import { changeTemplate } from '../../../db/templates/template-changes.ts';
import { findTemplateView } from '../../../db/templates/templates.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { queryFlag } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { templatePath } from './schema.ts';

/** The maximum bytes of a template's document in UTF-8. */
const maxDocumentBytes = 65_535;

/** Bytes of a body with the longest document, with every character escaped. */
const documentBodyBytes = 512 * 1024;

const documentSchema = z.object({
  template_id: z.string(),
  template_document: z.string().nullable().describe('Markdown'),
});

const newDocument = z
  .string()
  .max(maxDocumentBytes)
  .refine((text) => Buffer.byteLength(text) <= maxDocumentBytes, `must have at most ${maxDocumentBytes} bytes`);

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
      const view = await findTemplateView(deps.orm.em.fork(), requireScope(request), templateId);
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

const body = z.object({ template_document: newDocument.describe('Markdown; blank text clears it') });

/** `PUT /v1/templates/{template_id}/document`. */
export function setTemplateDocument(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/templates/:template_id/document',
    config: { bodyBytes: documentBodyBytes, access: anyUser('by_role') },
    schema: {
      operationId: 'setTemplateDocument',
      tags: ['Templates'],
      summary: 'Write the document of a template',
      description:
        'Markdown of up to 65,535 bytes; replaces the previous document. Everyone who can see the template can ' +
        'read it.',
      params: templatePath,
      body,
      response: {
        200: envelope(documentSchema, 'The document'),
        ...failures(ofMutations, 'not_found', 'template_of_another_user'),
      },
    },
    handler: async (request) => {
      const by = { caller: requireCaller(request), scope: requireScope(request) };
      const { template_document: text } = request.body;
      const templateDocument = text.trim() === '' ? null : text;
      const { templateId } = await changeTemplate(deps.orm.em.fork(), by, request.params.template_id, () => ({
        templateDocument,
      }));
      return success({ template_id: templateId, template_document: templateDocument });
    },
  });
}

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
      const by = { caller: requireCaller(request), scope: requireScope(request) };
      const { template_id: templateId } = request.params;
      await changeTemplate(deps.orm.em.fork(), by, templateId, () => ({ templateDocument: null }));
      return success({ template_id: templateId, template_document: null }, 'The document is removed');
    },
  });
}
