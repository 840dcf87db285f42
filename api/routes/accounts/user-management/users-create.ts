import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { createUser as makeUser } from '../../../../db/accounts/user-management.ts';
import { findUserWithin } from '../../../../db/accounts/users.ts';
import { makeInitialPassword } from '../../../../domain/accounts/initial-password.ts';
import type { AccountId, UserId } from '../../../../domain/ids.ts';
import { checkDisplayName, checkUsername, maxDisplayName, usernamePattern } from '../../../../domain/names.ts';
import { isIssuerFor } from '../../../../platform/config/oidc-issuers.ts';
import { accountPageUrl } from '../../../../platform/config/public-urls.ts';
import type { Settings } from '../../../../platform/config/settings.ts';
import { accountRoot, callerOf, scopeOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../../plugins/idempotency.ts';
import { readEmailField, requireOwnDomain } from '../../../schemas/email-field.ts';
import {
  bodyBytesWithDescription,
  description,
  nameOf,
  optionalNonZero,
  withDefault,
  withDefaultNonZero,
} from '../../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../../schemas/replies.ts';
import { presentUser, userSchema } from './user-schema.ts';

const body = z.object({
  email: z.string().max(1024).describe('ASCII before the `@`; unique, ignoring case'),
  username: z
    .string()
    .max(256)
    .meta({ minLength: 1, maxLength: 64, pattern: usernamePattern })
    .describe('Unique in the account, ignoring case'),
  role: z.enum(['user', 'admin']).describe('Only an admin can make an admin'),
  display_name: optionalNonZero(nameOf(maxDisplayName)).describe('Default: the user name'),
  status: withDefaultNonZero(z.enum(['enabled', 'disabled']), 'enabled'),
  description: withDefault(description(), ''),
  is_root_user: withDefault(z.boolean(), false).describe('Whether the user administers the account'),
});

const created = z.object({
  message: z.string(),
  user: userSchema,
  initial_password: z
    .string()
    .describe('Returned only once. Empty if a mail invites the user to set a password, and in a repeated reply'),
  dedicated_signin_url: z.string().nullable().describe('Where the user signs in'),
});

/**
 * `POST /v1/user-management/users`. The user is invited by mail if there is a mail server, or an identity provider that
 * they can sign in through. Otherwise, or if the user is created disabled, the reply has an initial password for the
 * caller to pass on.
 */
export function createUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/users',
    config: {
      bodyBytes: bodyBytesWithDescription,
      access: accountRoot('account'),
      idempotency: {
        makes: 'user',
        secrets: ['initial_password'],
        restore: (reply) => ({ ...reply, initial_password: '' }),
      },
    },
    schema: {
      operationId: 'createUser',
      tags: ['Users'],
      summary: 'Create a user of the account',
      description:
        'With a mail server, or an identity provider for the account, the user is invited by a mail. Otherwise the ' +
        'reply has `initial_password`, only once. Only an admin can make another admin.',
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(created, 'The user, and how they sign in'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'root_required', 'admin_required', 'invalid_name'] as const),
          ...(['email_taken', 'email_domain_not_allowed', 'username_taken', 'user_limit_reached'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const find = async (userId: UserId) => {
        const user = await findUserWithin(deps.orm.em, scopeOf(request), userId);
        return user && { user, initialPassword: '' };
      };
      const { user, initialPassword } = await createOnce(request, 'user', {
        find,
        create: async (userId) => {
          const { role, status, description, is_root_user: isRootUser } = request.body;
          const username = checkUsername(request.body.username.trim());
          const displayName = checkDisplayName((request.body.display_name ?? username).trim());
          const email = readEmailField('email', request.body.email);
          requireOwnDomain(deps.settings, caller.accountId, email);
          const isInvited = status === 'enabled' && isInvitable(deps.settings, caller.accountId, email);
          const password = isInvited ? null : makeInitialPassword(randomBytes(20));
          const passwordHash = password === null ? null : await deps.passwords.hash(password);
          const wanted = { userId, email, username, displayName, description, role, status, passwordHash, isRootUser };
          await makeUser(deps.orm.em.fork(), caller, wanted);
          return { ...(await find(userId))!, initialPassword: password ?? '' };
        },
      });
      const message = initialPassword === '' ? 'The user is created and invited by a mail' : 'The user is created';
      const data = { message, user: presentUser(user), initial_password: initialPassword };
      reply.header('cache-control', 'no-store');
      return reply.code(201).send(success({ ...data, dedicated_signin_url: accountPageUrl(deps.settings, 'sign-in') }));
    },
  });
}

/** A user with a password could never sign in through an identity provider. */
function isInvitable(settings: Settings, accountId: AccountId, email: string): boolean {
  return settings.SMTP_URL !== undefined || isIssuerFor(settings.PLATFORM_OIDC_ISSUERS, accountId, email);
}
