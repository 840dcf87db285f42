import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, ProjectId, UserId } from '../../domain/ids.ts';

/** A group of sandboxes of one user. Each user has exactly one default project. */
export const Project = defineEntity({
  name: 'Project',
  tableName: 'projects',
  properties: {
    projectId: p.string().$type<ProjectId>().primary(),
    accountId: p.string().$type<AccountId>(),
    ownerUserId: p.string().$type<UserId>(),
    name: p.string(),
    description: p.string().default(''),
    status: p.string().$type<'active'>().default('active'),
    isDefault: p.boolean().default(false),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Project = InferEntity<typeof Project>;
