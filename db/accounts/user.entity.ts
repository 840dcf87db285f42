import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, UserId } from '../../domain/ids.ts';

/**
 * A person of an account. Users with the role `admin` operate the platform. Users with `isRootUser` administer the
 * account.
 */
export const User = defineEntity({
  name: 'User',
  tableName: 'users',
  properties: {
    userId: p.string().$type<UserId>().primary(),
    accountId: p.string().$type<AccountId>(),
    email: p.string(),
    username: p.string(),
    displayName: p.string(),
    description: p.string().default(''),
    role: p.string().$type<'user' | 'admin'>().default('user'),
    status: p.string().$type<'enabled' | 'disabled'>().default('enabled'),
    isRootUser: p.boolean().default(false),
    emailVerified: p.boolean().default(false),
    passwordHash: p.string().nullable(),
    oauthProvider: p.string().nullable(),
    oauthProviderId: p.string().nullable(),
    avatarUrl: p.string().nullable(),
    maxActiveApiKeys: p.integer().nullable(),
    lastLogin: p.datetime(3).nullable(),
    /** When the deletion of the user was requested. */
    deletionRequestedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type User = InferEntity<typeof User>;
