import { findImportJob } from '../../../../db/templates/import-jobs.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { importJobPath, importJobSchema, presentImportJob } from './import-job-schema.ts';

/** `GET /v1/import-jobs/{job_id}`. */
export function getImportJob(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/import-jobs/:job_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getImportJob',
      tags: ['Imports'],
      summary: 'Read an import job',
      description: 'Returns status, progress in percent of the bytes, and the log of the copy, without passwords.',
      params: importJobPath,
      response: { 200: envelope(importJobSchema, 'The import job'), ...failures('not_found') },
    },
    handler: async (request) =>
      success(presentImportJob(await findImportJob(deps.orm.em.fork(), scopeOf(request), request.params.job_id))),
  });
}
