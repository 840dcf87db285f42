import { z } from 'zod';
import type { Account } from '../../../db/accounts/account.entity.ts';
import { changeAccount } from '../../../db/accounts/account-settings.ts';
import { changeUser } from '../../../db/accounts/user-management.ts';
import { findProfile } from '../../../db/accounts/users.ts';
import { AppError } from '../../../domain/errors.ts';
import { checkDisplayName, maxDisplayName } from '../../../domain/names.ts';
import { accountRoot, anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import {
  bodyBytesWithDescription,
  description,
  nameField,
  optional,
  optionalBody,
  optionalNonZero,
  time,
} from '../../schemas/fields.ts';
import { envelope, failures, messageEnvelope, ofMutations, success, successMessage } from '../../schemas/replies.ts';
import { presentUser, toUserChange, userChangeBody, userSchema } from './users.ts';

const accountSchema = z.object({
  account_id: z.string(),
  email: z.string(),
  display_name: z.string(),
  description: z.string(),
  status: z.enum(['active', 'suspended']),
  is_verified: z.boolean(),
  created_at: time(),
});

function presentAccount(account: Account): z.output<typeof accountSchema> {
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
      const { user, account } = await findProfile(deps.orm.em.fork(), requireCaller(request).userId);
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

/** `PUT /v1/users/me`. */
export function updateProfile(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/users/me',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('own') },
    schema: {
      operationId: 'updateProfile',
      tags: ['Users'],
      summary: 'Change your own profile',
      description:
        'Changes display name and description; a root user can also change their role, their status and `is_root_user`. Only an ' +
        'admin can grant or revoke ' +
        'the role `admin`.',
      body: userChangeBody,
      response: {
        200: messageEnvelope('The profile is changed'),
        ...failures(
          ofMutations,
          'root_required',
          'admin_required',
          'invalid_name',
          'last_root_user',
          'last_admin',
          'user_being_deleted',
        ),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const change = toUserChange(request.body);
      if (!caller.isRootUser && (change.role ?? change.status ?? change.isRootUser) !== undefined) {
        throw new AppError('root_required', 'Only an account root user may change a role, a status or is_root_user');
      }
      await changeUser(deps.orm.em.fork(), requireScope(request), caller, caller.userId, change);
      return successMessage('The profile is changed');
    },
  });
}

const body = optionalBody(
  z.object({ display_name: optionalNonZero(nameField(maxDisplayName)), description: optional(description()) }),
);

/** `PUT /v1/user-management/account`. */
export function updateAccount(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/account',
    config: { bodyBytes: bodyBytesWithDescription, access: accountRoot('account') },
    schema: {
      operationId: 'updateAccount',
      tags: ['Account'],
      summary: 'Rename or describe the account',
      description:
        'Fields that are left out do not change. To change the e-mail, use `POST ' +
        '/v1/user-management/account/email-change-request`.',
      body,
      response: {
        200: envelope(accountSchema, 'The account'),
        ...failures(ofMutations, 'root_required', 'invalid_name'),
      },
    },
    handler: async (request) => {
      const { display_name: name, description } = request.body;
      const displayName = name === undefined ? undefined : checkDisplayName(name.trim());
      const { accountId } = requireCaller(request);
      const account = await changeAccount(deps.orm.em.fork(), accountId, { displayName, description });
      return success(presentAccount(account), 'The account is changed');
    },
  });
}
