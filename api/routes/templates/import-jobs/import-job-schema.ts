import { z } from 'zod';
import type { ImportJob } from '../../../../db/templates/import-job.entity.ts';
import { importStatuses } from '../../../../domain/templates/import-jobs.ts';
import { givenId, time } from '../../../schemas/fields.ts';

export const importStatus = z.enum(importStatuses);

/** An item of the list. */
export const importJobItemSchema = z
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

export const importJobSchema = importJobItemSchema
  .extend({
    updated_at: time(),
    last_log_message: z.string().nullable(),
    error_message: z.string().nullable(),
    skopeo_logs: z.string().describe('The last 64 KiB of output of the copying tool'),
    retry_count: z.int().min(0),
    max_retries: z.int().min(0),
  })
  .meta({ id: 'ImportJob' });

export const cancelledImportSchema = z.object({
  job_id: z.string(),
  status: z.literal('cancelled'),
  message: z.string(),
});

export const importJobPath = z.object({ job_id: givenId('importJob', z.string().max(64)).describe('`job-…`') });

export function presentImportJob(job: ImportJob): z.output<typeof importJobSchema> {
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

export function presentImportJobItem(job: ImportJob): z.output<typeof importJobItemSchema> {
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

export function presentCancelledImport({ jobId }: ImportJob): z.output<typeof cancelledImportSchema> {
  return { job_id: jobId, status: 'cancelled', message: 'The import is cancelled' };
}
