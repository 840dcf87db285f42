import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { AppError, notFound } from '../../domain/errors.ts';
import type { ImportJobId, TemplateId } from '../../domain/ids.ts';
import { deriveRegistryProject } from '../../domain/templates/image.ts';
import { activeImportStatuses, type ImportStatus, maxImportRetries } from '../../domain/templates/import-jobs.ts';
import { requestSignal, requestStart } from '../core/outbox.ts';
import { type ListedTable, type Listing, type ListPage, readPage } from '../core/page.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { ImportJob } from './import-job.entity.ts';
import { Template } from './template.entity.ts';
import { changeTemplate, type TemplateCaller } from './template-changes.ts';

const listed: ListedTable = {
  table: 'import_jobs',
  alias: 'j',
  key: ['job_id'],
};

/** The number of finished jobs that are kept for a template. */
const keptJobs = 20;

export const importTag = 'latest';

/** The target of an import. It is derived from the template, never from input of a caller. */
export interface ImportTarget {
  project: string;
  repository: string;
  tag: string;
}

export function toImportTarget(template: Template): ImportTarget {
  const owner = { accountId: template.accountId!, ownerUserId: template.ownerUserId! };
  return { project: deriveRegistryProject(owner, template.visibility), repository: template.name, tag: importTag };
}

/** The registry's notation of an import's target. */
export interface ImportPlace {
  path: string;
  url: string;
}

/** Adds a job to a new or locked template, and requests the start of its workflow. */
export function addImportJob(
  tx: EntityManager,
  template: Pick<Template, 'templateId' | 'accountId' | 'ownerUserId' | 'externalImageUrl'>,
  jobId: ImportJobId,
  place: ImportPlace,
): void {
  tx.create(
    ImportJob,
    {
      jobId,
      templateId: template.templateId,
      accountId: template.accountId!,
      ownerUserId: template.ownerUserId!,
      status: 'pending',
      externalImageUrl: template.externalImageUrl!,
      registryImageUrl: place.url,
      registryPath: place.path,
      maxRetries: maxImportRetries,
    },
    { persist: true },
  );
  requestStart(tx, 'imageImport', jobId, { accountId: template.accountId!, jobId, path: place.path });
}

/**
 * Begins an import of an existing template.
 * @throws {AppError} `not_found`, `template_of_another_user`, `template_not_external`, `template_already_imported`,
 * `import_in_progress`
 */
export async function startImport(
  em: EntityManager,
  by: { caller: TemplateCaller; scope: Scope },
  templateId: TemplateId,
  jobId: ImportJobId,
  toPlace: (target: ImportTarget) => ImportPlace,
): Promise<void> {
  await changeTemplate(em, by, templateId, async (template, tx) => {
    const isActive = { templateId, status: { $in: [...activeImportStatuses] } };
    if (await tx.count(ImportJob, isActive)) {
      throw new AppError('import_in_progress', 'An import of this template is running');
    }
    requireExternal(template);
    await removeOldJobs(tx, templateId);
    addImportJob(tx, template, jobId, toPlace(toImportTarget(template)));
    return pendingImport(new Date());
  });
}

/** The fields of a template during its import. */
export function pendingImport(now: Date): Partial<Template> {
  return { status: 'pushing', pushStartedAt: now, pushCompletedAt: null, buildErrorMessage: null };
}

function requireExternal(template: Template): void {
  if (template.templateSource === 'custom' && template.customImageSource === 'imported' && template.image) {
    throw new AppError('template_already_imported', 'The image of this template is already imported');
  }
  const isExternal = template.templateSource === 'custom' && template.customImageSource === 'external';
  if (!isExternal || !template.externalImageUrl || !template.accountId) {
    throw new AppError('template_not_external', 'The template has no external image to import');
  }
}

async function removeOldJobs(tx: EntityManager, templateId: TemplateId): Promise<void> {
  await query(
    tx,
    `delete from import_jobs where job_id in (select job_id from import_jobs
       where template_id = ? and status not in ('pending', 'running') order by created_at desc offset ?)`,
    [templateId, keptJobs - 1],
  );
}

export type ImportFilter = { status: ImportStatus | 'ongoing'; templateId?: TemplateId | undefined };

export async function listImportJobs(
  em: EntityManager,
  scope: Scope,
  filter: ImportFilter,
  listing: Listing,
): Promise<ListPage & { jobs: ImportJob[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'j')];
  if (filter.status === 'ongoing') conditions.push({ sql: "j.status in ('pending', 'running')", values: [] });
  else conditions.push({ sql: 'j.status = ?', values: [filter.status] });
  if (filter.templateId) conditions.push({ sql: 'j.template_id = ?', values: [filter.templateId] });
  const { rows, ...page } = await readPage<EntityRow<ImportJob>>(em, listed, conditions, listing);
  return { jobs: rows.map((row) => readRow(em, ImportJob, row)), ...page };
}

/** @throws {AppError} `not_found` */
export async function findImportJob(em: EntityManager, scope: Scope, jobId: ImportJobId): Promise<ImportJob> {
  const job = await em.findOne(ImportJob, { jobId, ...entitiesWithin(scope) });
  if (!job) throw notFound('Import job');
  return job;
}

/** The running job of a template, or else the newest one. Null: there is none. */
export async function findNewestImport(
  em: EntityManager,
  scope: Scope,
  templateId: TemplateId,
): Promise<ImportJob | null> {
  const within = { templateId, ...entitiesWithin(scope) };
  return (
    (await em.findOne(ImportJob, { ...within, status: { $in: [...activeImportStatuses] } })) ??
    (await em.findOne(ImportJob, within, { orderBy: { createdAt: 'desc', jobId: 'asc' } }))
  );
}

/**
 * Cancels a job. The row decides whether the cancellation or the completion wins, and the workflow is signalled in the
 * same transaction.
 * @throws {AppError} `not_found` when there is no such job, or no running job of this template; `import_not_active`
 */
export async function cancelImport(
  em: EntityManager,
  scope: Scope,
  which: { jobId: ImportJobId } | { templateId: TemplateId },
): Promise<ImportJob> {
  return scopeTransaction(em, scope, async (tx) => {
    const isByTemplate = 'templateId' in which;
    const wanted = isByTemplate ? { ...which, status: { $in: [...activeImportStatuses] } } : which;
    const options = { lockMode: LockMode.PESSIMISTIC_WRITE } as const;
    const job = await tx.findOne(ImportJob, { ...wanted, ...entitiesWithin(scope) }, options);
    if (!job) throw notFound(isByTemplate ? 'Active import' : 'Import job');
    if (job.status === 'cancelled') return job;
    if (!activeImportStatuses.includes(job.status)) {
      throw new AppError('import_not_active', `The import is ${job.status}`);
    }
    tx.assign(job, { status: 'cancelled', completedAt: new Date(), lastLogMessage: 'cancelled' });
    const untouched = { templateId: job.templateId, status: 'pushing' as const };
    await tx.nativeUpdate(Template, untouched, { status: 'pending', pushStartedAt: null, updatedAt: new Date() });
    requestSignal(tx, 'imageImport', job.jobId, 'importCancelled', { jobId: job.jobId });
    return job;
  });
}
