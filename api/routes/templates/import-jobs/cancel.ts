import { cancelImport } from '../../../../db/templates/import-jobs.ts';
import { anyUser, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { cancelledImportSchema, importJobPath, presentCancelledImport } from './import-job-schema.ts';

/** `DELETE /v1/import-jobs/{job_id}`. */
export function cancelImportJob(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/import-jobs/:job_id',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'cancelImportJob',
      tags: ['Imports'],
      summary: 'Cancel an import job',
      description:
        'Stops a pending or running copy immediately. The template stays without an image and can be imported again.',
      params: importJobPath,
      response: {
        200: envelope(cancelledImportSchema, 'The import is cancelled'),
        ...failures(ofMutations, 'not_found', 'import_not_active'),
      },
    },
    handler: async (request) => {
      const { job_id: jobId } = request.params;
      return success(presentCancelledImport(await cancelImport(deps.orm.em.fork(), scopeOf(request), { jobId })));
    },
  });
}
