import { z } from 'zod';
import { findTemplateView } from '../../../db/repositories/templates.ts';
import { notFound } from '../../../domain/errors.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { callerOf } from '../../plugins/authentication.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
import { presentTemplate, templateSchema } from './template-schema.ts';

/** `GET /v1/templates/{template_id}` (section 4.2). */
export function getTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates/:template_id',
    schema: {
      operationId: 'getTemplate',
      tags: ['Templates'],
      summary: 'Read a template',
      params: z.object({ template_id: z.string().describe('`tpl-…`') }),
      response: { 200: envelope(templateSchema, 'The template'), ...failures('not_found') },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const view = await findTemplateView(deps.orm.em.fork(), caller, request.params.template_id);
      if (!view) throw notFound('Template');
      return success(presentTemplate(view, caller.accountId));
    },
  });
}
