import { z } from 'zod';
import { findProfile } from '../../../db/repositories/users.ts';
import { anyUser, callerOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { accountSchema, presentAccount } from '../../schemas/account.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';
import { time } from '../../schemas/fields.ts';

/** The calling user, with their account. */
const profileSchema = z
  .object({
    user_id: z.string(),
    account_id: z.string(),
    email: z.string(),
    username: z.string(),
    display_name: z.string(),
    role: z.enum(['user', 'admin']),
    status: z.enum(['enabled', 'disabled']),
    is_root_user: z.boolean(),
    email_verified: z.boolean(),
    description: z.string(),
    last_login: time().nullable(),
    created_at: time(),
    oauth_provider: z.string().nullable(),
    oauth_provider_id: z.string().nullable(),
    has_local_password: z.boolean(),
    avatar_url: z.string().nullable(),
    account: accountSchema,
  })
  .meta({ id: 'Profile' });

/** `GET /v1/users/me`. */
export function getProfile(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/users/me',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getProfile',
      tags: ['Users'],
      summary: 'Read who is calling',
      response: { 200: envelope(profileSchema, 'The caller and their account'), ...failures() },
    },
    handler: async (request) => {
      const { user, account } = await findProfile(deps.orm.em.fork(), callerOf(request).userId);
      return success({
        user_id: user.userId,
        account_id: user.accountId,
        email: user.email,
        username: user.username,
        display_name: user.displayName,
        role: user.role,
        status: user.status,
        is_root_user: user.isRootUser,
        email_verified: user.emailVerified,
        description: user.description,
        last_login: user.lastLogin ?? null,
        created_at: user.createdAt,
        oauth_provider: user.oauthProvider ?? null,
        oauth_provider_id: user.oauthProviderId ?? null,
        has_local_password: Boolean(user.passwordHash),
        avatar_url: user.avatarUrl ?? null,
        account: presentAccount(account),
      });
    },
  });
}
