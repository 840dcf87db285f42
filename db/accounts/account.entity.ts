import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId } from '../../domain/ids.ts';

/** The tenant. Users, projects and sandboxes belong to exactly one account. */
export const Account = defineEntity({
  name: 'Account',
  tableName: 'accounts',
  properties: {
    accountId: p.string().$type<AccountId>().primary(),
    email: p.string(),
    displayName: p.string(),
    description: p.string().default(''),
    status: p.string().$type<'active' | 'suspended'>().default('active'),
    isVerified: p.boolean().default(false),
    planName: p.string(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type Account = InferEntity<typeof Account>;
