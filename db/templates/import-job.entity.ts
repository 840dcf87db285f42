import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, ImportJobId, TemplateId, UserId } from '../../domain/ids.ts';
import type { ImportStatus } from '../../domain/templates/import-jobs.ts';

/** The copy of an external image into the platform's registry. */
export const ImportJob = defineEntity({
  name: 'ImportJob',
  tableName: 'import_jobs',
  properties: {
    jobId: p.string().$type<ImportJobId>().primary(),
    templateId: p.string().$type<TemplateId>(),
    accountId: p.string().$type<AccountId>(),
    ownerUserId: p.string().$type<UserId>(),
    status: p.string().$type<ImportStatus>(),
    progressPercentage: p.integer().default(0),
    externalImageUrl: p.string(),
    registryImageUrl: p.string(),
    /** The target repository. */
    registryPath: p.string(),
    lastLogMessage: p.string().nullable(),
    errorMessage: p.string().nullable(),
    skopeoLogs: p.text().default(''),
    retryCount: p.integer().default(0),
    maxRetries: p.integer(),
    startedAt: p.datetime(3).nullable(),
    completedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type ImportJob = InferEntity<typeof ImportJob>;
