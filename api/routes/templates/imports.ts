import { z } from 'zod';
import type { ImportJob } from '../../../db/templates/import-job.entity.ts';
import {
  cancelImport,
  findImportJob,
  listImportJobs as findImportJobs,
  findNewestImport,
  type ImportPlace,
  type ImportTarget,
  startImport,
} from '../../../db/templates/import-jobs.ts';
import { requireChangeable } from '../../../db/templates/template-changes.ts';
import { notFound } from '../../../domain/errors.ts';
import type { ImportJobId } from '../../../domain/ids.ts';
import { importStatuses } from '../../../domain/templates/import-jobs.ts';
import type { PlatformRegistry } from '../../../integrations/registry/platform-registry.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import { givenId, optionalQuery, time } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofIdempotency, ofMutations, ofPaging, success } from '../../schemas/replies.ts';
import { requireRegistryUp, requireStorage } from './images.ts';
import { templatePath } from './schema.ts';

export const importStatus = z.enum(importStatuses);

/** An item of the list. */
const importJobItemSchema = z
  .object({
    job_id: z.string(),
    template_id: z.string(),
    status: importStatus,
    progress_percentage: z.int().min(0).max(100).describe('Percent of the bytes of the image'),
    external_image_url: z.string(),
    registry_image_url: z.string(),
    created_at: time(),
    started_at: time().nullable(),
    completed_at: time().nullable(),
  })
  .meta({ id: 'ImportJobItem' });

const importJobSchema = importJobItemSchema
  .extend({
    updated_at: time(),
    last_log_message: z.string().nullable(),
    error_message: z
      .string()
      .nullable()
      .describe(
        'Why the last attempt failed, also while the import is running and tries again. Null: none has failed, or the import is completed',
      ),
    skopeo_logs: z.string().describe('The last 64 KiB of output of the copying tool'),
    retry_count: z.int().min(0),
    max_retries: z.int().min(0),
  })
  .meta({ id: 'ImportJob' });

const cancelledImportSchema = z.object({
  job_id: z.string(),
  status: z.literal('cancelled'),
  message: z.string(),
});

const importJobPath = z.object({ job_id: givenId('importJob', z.string().max(64)).describe('`job-…`') });

function presentImportJob(job: ImportJob): z.output<typeof importJobSchema> {
  return {
    ...presentImportJobItem(job),
    updated_at: job.updatedAt,
    last_log_message: job.lastLogMessage ?? null,
    error_message: job.errorMessage ?? null,
    skopeo_logs: job.skopeoLogs,
    retry_count: job.retryCount,
    max_retries: job.maxRetries,
  };
}

function presentImportJobItem(job: ImportJob): z.output<typeof importJobItemSchema> {
  return {
    job_id: job.jobId,
    template_id: job.templateId,
    status: job.status,
    progress_percentage: job.progressPercentage,
    external_image_url: job.externalImageUrl,
    registry_image_url: job.registryImageUrl,
    created_at: job.createdAt,
    started_at: job.startedAt ?? null,
    completed_at: job.completedAt ?? null,
  };
}

function presentCancelledImport({ jobId }: ImportJob): z.output<typeof cancelledImportSchema> {
  return { job_id: jobId, status: 'cancelled', message: 'The import is cancelled' };
}

const startedImportSchema = z.object({
  job_id: z.string(),
  template_id: z.string(),
  status: importStatus,
  external_image_url: z.string(),
  registry_image_url: z.string(),
  created_at: time(),
  message: z.string(),
});

export const importStarted = 'The import is started';

function presentStartedImport(job: ImportJob): z.output<typeof startedImportSchema> {
  return {
    job_id: job.jobId,
    template_id: job.templateId,
    status: job.status,
    external_image_url: job.externalImageUrl,
    registry_image_url: job.registryImageUrl,
    created_at: job.createdAt,
    message: importStarted,
  };
}

export function importPlaceIn(registry: PlatformRegistry): (target: ImportTarget) => ImportPlace {
  return (target) => ({ path: registry.formatPath(target), url: registry.formatUrl(target) });
}

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
      const by = { caller: requireCaller(request), scope: requireScope(request) };
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
      const job = await findNewestImport(deps.orm.em.fork(), requireScope(request), templateId);
      if (!job) throw notFound('Import job');
      return success(presentImportJob(job));
    },
  });
}

/** `DELETE /v1/templates/{template_id}/import`. */
export function cancelTemplateImport(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/templates/:template_id/import',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'cancelTemplateImport',
      tags: ['Imports'],
      summary: 'Cancel the import of a template of your own',
      description:
        'Stops the newest copy of the template immediately. The template stays without an image and can be imported ' +
        'again.',
      params: templatePath,
      response: {
        200: envelope(cancelledImportSchema, 'The import is cancelled'),
        ...failures(ofMutations, 'not_found', 'import_not_active'),
      },
    },
    handler: async (request) => {
      const { template_id: templateId } = request.params;
      return success(
        presentCancelledImport(await cancelImport(deps.orm.em.fork(), requireScope(request), { templateId })),
      );
    },
  });
}

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  status: optionalQuery(z.enum(['ongoing', ...importStatuses])).describe('Default ongoing: pending and running jobs'),
  template_id: optionalQuery(givenId('template', z.string().max(64))),
});

/** `GET /v1/import-jobs`. */
export function listImportJobs(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/import-jobs',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listImportJobs',
      tags: ['Imports'],
      summary: 'List import jobs, newest first',
      description:
        'Without `status`, lists pending and running jobs. Users see their own jobs, root users those of the account.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ jobs: z.array(importJobItemSchema), pagination: paginationSchema }),
          'A page of import jobs',
        ),
        ...failures(ofPaging, 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const filter = { status: request.query.status ?? ('ongoing' as const), templateId: request.query.template_id };
      const { jobs, ...page } = await findImportJobs(deps.orm.em.fork(), requireScope(request), filter, listing);
      return success({ jobs: jobs.map(presentImportJobItem), pagination: presentPagination(listing, page) });
    },
  });
}

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
      success(presentImportJob(await findImportJob(deps.orm.em.fork(), requireScope(request), request.params.job_id))),
  });
}

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
      return success(presentCancelledImport(await cancelImport(deps.orm.em.fork(), requireScope(request), { jobId })));
    },
  });
}
