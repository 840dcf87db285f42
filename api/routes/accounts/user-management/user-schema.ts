import { z } from 'zod';
import type { User } from '../../../../db/accounts/user.entity.ts';
import { givenId, time } from '../../../schemas/fields.ts';

const fields = {
  user_id: z.string(),
  email: z.string(),
  username: z.string(),
  display_name: z.string(),
  role: z.enum(['user', 'admin']),
  status: z.enum(['enabled', 'disabled']),
  is_root_user: z.boolean(),
  email_verified: z.boolean().describe('The user has opened a link that was mailed to this address'),
  created_at: time(),
  last_login: time().nullable(),
};

/** A user in the list. */
export const userItemSchema = z.object(fields).meta({ id: 'UserItem' });

/** A single user. */
export const userSchema = z.object({ ...fields, description: z.string() }).meta({ id: 'User' });

export const userPath = z.object({ user_id: givenId('user').describe('`usr-…`') });

export function presentUserItem(user: User): z.output<typeof userItemSchema> {
  return {
    user_id: user.userId,
    email: user.email,
    username: user.username,
    display_name: user.displayName,
    role: user.role,
    status: user.status,
    is_root_user: user.isRootUser,
    email_verified: user.emailVerified,
    created_at: user.createdAt,
    last_login: user.lastLogin ?? null,
  };
}

export function presentUser(user: User): z.output<typeof userSchema> {
  return { ...presentUserItem(user), description: user.description };
}
