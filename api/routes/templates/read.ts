import { z } from 'zod';
import { findTemplateView, listTemplateViews } from '../../../db/templates/templates.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalQuery, queryFlag } from '../../schemas/fields.ts';
import {
  accountQuery,
  createPagingQuery,
  paginationSchema,
  presentPagination,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import {
  presentTemplate,
  templateItemSchema,
  templatePath,
  templateSchema,
  templateStatus,
  templateVisibility,
} from './schema.ts';

const query = z.object({
  ...createPagingQuery(20),
  ...accountQuery,
  status: optionalQuery(templateStatus),
  visibility: optionalQuery(templateVisibility),
  name: optionalQuery(z.string().max(128)).describe('Exact'),
  usable: queryFlag().describe('true: only templates that sandboxes can be made from'),
});

/** `GET /v1/templates`: public templates, shared templates of the account, and the caller's own. */
export function listTemplates(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listTemplates',
      tags: ['Templates'],
      summary: 'List templates, newest first',
      description:
        'Lists public templates, those shared in the account, and your own; root users see all of the account. ' +
        '`usable=true` ' +
        'lists only templates that sandboxes can be made from.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ templates: z.array(templateItemSchema), pagination: paginationSchema }),
          'A page of templates',
        ),
        ...failures(ofPaging, 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const listing = toListing(deps, request, 20);
      const { views, ...page } = await listTemplateViews(
        deps.orm.em.fork(),
        requireScope(request),
        request.query,
        listing,
      );
      const templates = views.map((view) => presentTemplate(view, accountId));
      return success({ templates, pagination: presentPagination(listing, page) });
    },
  });
}

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
      const view = await findTemplateView(deps.orm.em.fork(), requireScope(request), request.params.template_id);
      if (!view) throw notFound('Template');
      return success(presentTemplate(view, requireCaller(request).accountId));
    },
  });
}
