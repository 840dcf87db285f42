import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import type { ImportJobId, TemplateId } from '../../domain/ids.ts';
import { readRegistryImage } from '../../domain/templates/image.ts';
import { activeImportStatuses } from '../../domain/templates/import-jobs.ts';
import { addNotification } from '../accounts/notifications.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import { lockRow } from '../core/lock-row.ts';
import { requestStart } from '../core/outbox.ts';
import { query } from '../core/query.ts';
import { ImportJob } from './import-job.entity.ts';
import { importTag } from './import-jobs.ts';
import { Template } from './template.entity.ts';
import { recordUpload, type TemplateImage } from './template-changes.ts';
import { addLeftovers, storageExcess, takeFromLeftovers } from './template-storage.ts';

/** The facts for an attempt at an import. The password is encrypted. */
export interface ImportPlan {
  jobId: ImportJobId;
  templateId: TemplateId;
  externalImageUrl: string;
  username: string | null;
  sealedPassword: string | null;
  path: string;
  tag: string;
  /** The URL that the API shows. This process may reach the registry by another name. */
  url: string;
}

/** The limit of the log, because the tool logs facts about an untrusted image. */
const maxLogLength = 65_536;
const maxMessageLength = 2000;

/** Null: the job has ended or was deleted. */
export async function findImportAccount(em: EntityManager, jobId: ImportJobId): Promise<string | null> {
  const active = { jobId, status: { $in: [...activeImportStatuses] } };
  return (await em.fork().findOne(ImportJob, active))?.accountId ?? null;
}

/**
 * Records that an attempt begins.
 * @returns null when the job has ended, or its template was deleted; `wait` when the registry is being swept, or an
 * image of the same repository is being removed
 */
export async function beginImportAttempt(
  em: EntityManager,
  jobId: ImportJobId,
  retry: number,
): Promise<ImportPlan | 'wait' | null> {
  return em.fork().transactional(async (tx) => {
    // The registry's state is locked before the job, in the same order as in a sweep. So the sweep sees this job as
    // running, or this attempt sees that the registry is closed.
    const [sweeps] = await query<{ closed: boolean }>(
      tx,
      'select coalesce(closed_until > now(), false) as closed from registry_sweeps for share',
    );
    const job = await lockActive(tx, jobId);
    const template = job && (await tx.findOne(Template, { templateId: job.templateId }));
    if (!job || !template) return null;
    const removals = await query<{ removing: boolean }>(
      tx,
      'select coalesce(removing_until > now(), false) as removing from registry_images where path = ? for share',
      [job.registryPath],
    );
    if (sweeps!.closed || removals.some(({ removing }) => removing)) return 'wait';
    tx.assign(job, { status: 'running', startedAt: job.startedAt ?? new Date(), retryCount: retry });
    return {
      jobId,
      templateId: template.templateId,
      externalImageUrl: job.externalImageUrl,
      username: template.externalRegistryUsername ?? null,
      sealedPassword: template.registryPassword ?? null,
      path: job.registryPath,
      tag: importTag,
      url: job.registryImageUrl,
    };
  });
}

/**
 * Records the progress of an import. The percentage never falls, because a repeated attempt already has the blobs of
 * the previous one.
 * @param progress.newBytes sent to the registry since the last record; they are leftovers until the import is complete
 * @param progress.error why the attempt has failed. Null: the error of the attempt before stays
 * @returns false when the job has ended, and the attempt must end
 */
export async function recordImportProgress(
  em: EntityManager,
  jobId: ImportJobId,
  progress: { percentage: number; newLines: readonly string[]; newBytes: number; error: string | null },
): Promise<boolean> {
  await addLeftovers(em.fork(), jobId, progress.newBytes);
  const text = progress.newLines.map((line) => `${line}\n`).join('');
  const rows = await query(
    em.fork(),
    `update import_jobs set progress_percentage = greatest(progress_percentage, ?),
            skopeo_logs = right(skopeo_logs || ?::text, ${maxLogLength}),
            last_log_message = coalesce(?::text, last_log_message),
            error_message = coalesce(?::text, error_message), updated_at = now()
      where job_id = ? and status = 'running' returning 1`,
    [
      ...[Math.min(99, progress.percentage), text, progress.newLines.at(-1)?.slice(0, maxMessageLength) ?? null],
      ...[progress.error?.slice(0, maxMessageLength) ?? null, jobId],
    ],
  );
  return rows.length > 0;
}

export type ImportEnd = 'completed' | 'over' | 'no_room';

/**
 * Completes an import: the template becomes available with the image, and the password is removed.
 * @returns `over` when it was cancelled or its template deleted; `no_room` when the image exceeds the limits of
 * storage. In both cases nothing refers to the image
 */
export async function completeImport(
  em: EntityManager,
  plans: PlanCatalog,
  jobId: ImportJobId,
  image: TemplateImage,
): Promise<ImportEnd> {
  return em.fork().transactional(async (tx) => {
    const found = await tx.findOne(ImportJob, { jobId }, { fields: ['accountId'], disableIdentityMap: true });
    // Imports of one account complete one after the other, so that together they respect the limits of storage.
    if (!found || !(await lockRow(tx, 'accounts', found.accountId))) return 'over';
    const job = await lockActive(tx, jobId);
    const template =
      job && (await tx.findOne(Template, { templateId: job.templateId }, { lockMode: LockMode.PESSIMISTIC_WRITE }));
    if (!job || !template) return 'over';
    if ((await storageExcess(tx, plans, template, image.imageBlobs ?? [], jobId)) !== null) return 'no_room';
    await takeFromLeftovers(tx, jobId, image.imageSizeBytes ?? 0);
    const now = new Date();
    if (template.image && template.image !== image.image && readRegistryImage(template.image)) {
      requestStart(tx, 'imageRemoval', template.image, { accountId: found.accountId, image: template.image });
    }
    tx.assign(job, { status: 'completed', progressPercentage: 100, completedAt: now, errorMessage: null });
    tx.assign(template, {
      ...image,
      customImageSource: 'imported',
      status: 'available',
      registryPassword: null,
      buildErrorMessage: null,
      pushCompletedAt: now,
      lastStorageSyncAt: now,
    });
    notify(tx, job, template, 'completed', `The image of the template ${template.name} is imported.`);
    await recordUpload(tx, template);
    return 'completed';
  });
}

/** Marks an import as failed for good. */
export async function failImport(em: EntityManager, jobId: ImportJobId, reason: string): Promise<void> {
  await em.fork().transactional(async (tx) => {
    const job = await lockActive(tx, jobId);
    if (!job) return;
    const errorMessage = reason.slice(0, maxMessageLength);
    tx.assign(job, { status: 'failed', completedAt: new Date(), errorMessage });
    const template = await tx.findOne(Template, { templateId: job.templateId });
    if (!template) return;
    tx.assign(template, { status: 'failed', buildErrorMessage: errorMessage });
    notify(tx, job, template, 'failed', `The import of the template ${template.name} has failed: ${errorMessage}`);
  });
}

async function lockActive(tx: EntityManager, jobId: ImportJobId): Promise<ImportJob | null> {
  const active = { jobId, status: { $in: [...activeImportStatuses] } };
  return tx.findOne(ImportJob, active, { lockMode: LockMode.PESSIMISTIC_WRITE });
}

function notify(
  tx: EntityManager,
  job: ImportJob,
  template: Template,
  how: 'completed' | 'failed',
  message: string,
): void {
  addNotification(tx, {
    accountId: job.accountId,
    userId: job.ownerUserId,
    title: how === 'completed' ? 'An import is completed' : 'An import has failed',
    message,
    type: `template_import_${how}`,
    category: 'template',
    relatedEntityType: 'template',
    relatedEntityId: template.templateId,
  });
}
