import { z } from 'zod';
import type { ApiKey } from '../../../../db/accounts/api-key.entity.ts';
import { givenId, personSchema, time } from '../../../schemas/fields.ts';

/** The fields of a key in every reply except that of create. */
const metadata = {
  key_id: z.string(),
  name: z.string(),
  description: z.string(),
  prefix: z.string().describe("The secret's first characters"),
  is_active: z.boolean(),
  last_used_at: time().nullable().describe('To the minute'),
  created_at: time(),
  updated_at: time(),
};

/** The update reply. */
export const updatedApiKeySchema = z.object(metadata).meta({ id: 'UpdatedApiKey' });

/** The list and get reply. */
export const apiKeySchema = z.object({ ...metadata, owner: personSchema }).meta({ id: 'ApiKey' });

/** The create reply. No other reply contains the secret. */
export const createdApiKeySchema = z
  .object({
    key_id: z.string(),
    name: z.string(),
    description: z.string(),
    api_key: z
      .string()
      .optional()
      .describe('The secret, shown only once; a reply to a repeated Idempotency-Key does not have it'),
    prefix: z.string(),
    is_active: z.boolean(),
    created_at: time(),
    max_active_api_keys: z.int(),
    owner: personSchema,
  })
  .meta({ id: 'CreatedApiKey' });

/** Path of routes on one key. */
export const apiKeyPath = z.object({ key_id: givenId('apiKey').describe('`key-…`') });

export function presentApiKey(key: ApiKey): z.output<typeof updatedApiKeySchema> {
  return {
    key_id: key.keyId,
    name: key.name,
    description: key.description,
    prefix: key.prefix,
    is_active: key.isActive,
    last_used_at: key.lastUsedAt ?? null,
    created_at: key.createdAt,
    updated_at: key.updatedAt,
  };
}
