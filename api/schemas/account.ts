import { z } from 'zod';
import type { Account } from '../../db/accounts/account.entity.ts';
import { time } from './fields.ts';

export const accountSchema = z.object({
  account_id: z.string(),
  email: z.string(),
  display_name: z.string(),
  description: z.string(),
  status: z.enum(['active', 'suspended']),
  is_verified: z.boolean(),
  created_at: time(),
});

export function presentAccount(account: Account): z.output<typeof accountSchema> {
  return {
    account_id: account.accountId,
    email: account.email,
    display_name: account.displayName,
    description: account.description,
    status: account.status,
    is_verified: account.isVerified,
    created_at: account.createdAt,
  };
}
