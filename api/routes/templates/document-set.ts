import { z } from 'zod';
import { changeTemplate } from '../../../db/templates/template-changes.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { documentBodyBytes, documentSchema, newDocument } from './template-document.ts';
import { templatePath } from './template-path.ts';

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
      const by = { caller: callerOf(request), scope: scopeOf(request) };
      const { template_document: text } = request.body;
      const templateDocument = text.trim() === '' ? null : text;
      const { templateId } = await changeTemplate(deps.orm.em.fork(), by, request.params.template_id, () => ({
        templateDocument,
      }));
      return success({ template_id: templateId, template_document: templateDocument });
    },
  });
}
