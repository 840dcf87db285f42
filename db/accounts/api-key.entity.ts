import { defineEntity, type InferEntity, p } from '@mikro-orm/core';
import type { AccountId, ApiKeyId, UserId } from '../../domain/ids.ts';

/** An API key. Of its secret, only the SHA-256 and the first characters are stored. */
export const ApiKey = defineEntity({
  name: 'ApiKey',
  tableName: 'api_keys',
  properties: {
    keyId: p.string().$type<ApiKeyId>().primary(),
    accountId: p.string().$type<AccountId>(),
    userId: p.string().$type<UserId>(),
    name: p.string(),
    description: p.string().default(''),
    secretHash: p.string().hidden(),
    /** The first 12 characters. The create reply shows 8 of them. */
    prefix: p.string(),
    isActive: p.boolean().default(true),
    lastUsedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3).onCreate(() => new Date()),
    updatedAt: p
      .datetime(3)
      .onCreate(() => new Date())
      .onUpdate(() => new Date()),
  },
});
export type ApiKey = InferEntity<typeof ApiKey>;
