import { findNewestImport } from '../../../db/templates/import-jobs.ts';
import { notFound } from '../../../domain/errors.ts';
import { anyUser, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { importJobSchema, presentImportJob } from './import-jobs/import-job-schema.ts';
import { templatePath } from './template-path.ts';

/** `GET /v1/templates/{template_id}/import`: the running job, or else the newest one. */
export function getTemplateImport(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates/:template_id/import',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getTemplateImport',
      tags: ['Imports'],
      summary: 'Read the import of a template of your own',
      description: 'Returns the running copy, or else the newest one.',
      params: templatePath,
      response: { 200: envelope(importJobSchema, 'The import job'), ...failures('not_found') },
    },
    handler: async (request) => {
      const { template_id: templateId } = request.params;
      const job = await findNewestImport(deps.orm.em.fork(), scopeOf(request), templateId);
      if (!job) throw notFound('Import job');
      return success(presentImportJob(job));
    },
  });
}
