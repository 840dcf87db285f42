import { findImportJob, startImport } from '../../../db/templates/import-jobs.ts';
import { requireChangeable } from '../../../db/templates/template-changes.ts';
import type { ImportJobId } from '../../../domain/ids.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { requireRegistryUp, requireStorage } from '../../template-images.ts';
import { importPlaceIn, presentStartedImport, startedImportSchema } from './started-import.ts';
import { templatePath } from './template-path.ts';

/** `POST /v1/templates/{template_id}/import`. */
export function startTemplateImport(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/import',
    config: { access: anyUser('by_role'), idempotency: { makes: 'importJob' } },
    schema: {
      operationId: 'startTemplateImport',
      tags: ['Imports'],
      summary: 'Import the external image of a template',
      description:
        "For a template that was made as `custom` and `external`: copies its image into the platform's registry, in " +
        'the background. One copy of a template runs at a time.',
      headers: idempotencyHeaders,
      params: templatePath,
      response: {
        202: envelope(startedImportSchema, 'The import is started'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'not_found', 'template_of_another_user'] as const),
          ...(['template_not_external', 'template_already_imported', 'template_storage_limit_reached'] as const),
          ...(['import_in_progress', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const by = { caller: callerOf(request), scope: scopeOf(request) };
      const { template_id: templateId } = request.params;
      const template = await requireChangeable(deps.orm.em.fork(), by, templateId);
      const registry = await requireRegistryUp(deps.registry);
      await requireStorage(deps.orm.em.fork(), deps, template);
      const owners = { rows: 'account' as const, accountId: template.accountId ?? by.caller.accountId };
      const find = (jobId: ImportJobId) => findImportJob(deps.orm.em.fork(), owners, jobId);
      const job = await createOnce(request, 'importJob', {
        find: (jobId) => find(jobId).catch(() => null),
        create: async (jobId) => {
          await startImport(deps.orm.em.fork(), by, templateId, jobId, importPlaceIn(registry));
          return find(jobId);
        },
      });
      return reply.code(202).send(success(presentStartedImport(job)));
    },
  });
}
