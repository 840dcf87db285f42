import { z } from 'zod';
import type { ImportJob } from '../../../db/templates/import-job.entity.ts';
import type { ImportPlace, ImportTarget } from '../../../db/templates/import-jobs.ts';
import type { PlatformRegistry } from '../../../integrations/registry/platform-registry.ts';
import { time } from '../../schemas/fields.ts';
import { importStatus } from './import-jobs/import-job-schema.ts';

export const startedImportSchema = z.object({
  job_id: z.string(),
  template_id: z.string(),
  status: importStatus,
  external_image_url: z.string(),
  registry_image_url: z.string(),
  created_at: time(),
  message: z.string(),
});

export const importStarted = 'The import is started';

export function presentStartedImport(job: ImportJob): z.output<typeof startedImportSchema> {
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
  return (target) => ({ path: registry.pathOf(target), url: registry.urlOf(target) });
}
