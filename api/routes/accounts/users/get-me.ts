import { z } from 'zod';
import { findProfile } from '../../../../db/accounts/users.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { accountSchema, presentAccount } from '../../../schemas/account.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { presentUser, userSchema } from '../user-management/user-schema.ts';

/** The calling user, with their account. */
const profileSchema = z
  .object({
    ...userSchema.shape,
    account_id: z.string(),
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
      summary: 'Read the calling user',
      description: 'Returns the user and the account of the API key or token in the request.',
      response: { 200: envelope(profileSchema, 'The caller and their account'), ...failures() },
    },
    handler: async (request) => {
      const { user, account } = await findProfile(deps.orm.em.fork(), callerOf(request).userId);
      return success({
        ...presentUser(user),
        account_id: user.accountId,
        oauth_provider: user.oauthProvider ?? null,
        oauth_provider_id: user.oauthProviderId ?? null,
        has_local_password: Boolean(user.passwordHash),
        avatar_url: user.avatarUrl ?? null,
        account: presentAccount(account),
      });
    },
  });
}
