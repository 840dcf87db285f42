import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { User } from '../../../db/accounts/user.entity.ts';
import { requestUserDeletion } from '../../../db/accounts/user-deletion.ts';
import {
  changeUser,
  listUsers,
  createUser as makeUser,
  type UserChange,
} from '../../../db/accounts/user-management.ts';
import { findUserWithin } from '../../../db/accounts/users.ts';
import { makeInitialPassword } from '../../../domain/accounts/initial-password.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import type { AccountId, UserId } from '../../../domain/ids.ts';
import { checkDisplayName, checkUsername, maxDisplayName, usernamePattern } from '../../../domain/names.ts';
import { isDomainOfOthers, isIssuerFor } from '../../../platform/config/oidc-issuers.ts';
import { accountPageUrl } from '../../../platform/config/public-urls.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { accountRoot, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  givenId,
  nameField,
  optional,
  optionalBody,
  optionalNonZero,
  optionalQuery,
  readEmailField,
  time,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import {
  envelope,
  failures,
  messageEnvelope,
  ofIdempotency,
  ofMutations,
  ofPaging,
  success,
  successMessage,
} from '../../schemas/replies.ts';

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
const userItemSchema = z.object(fields).meta({ id: 'UserItem' });

/** A single user. */
export const userSchema = z.object({ ...fields, description: z.string() }).meta({ id: 'User' });

const userPath = z.object({ user_id: givenId('user').describe('`usr-…`') });

function presentUserItem(user: User): z.output<typeof userItemSchema> {
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

/** The body that changes a user. */
export const userChangeBody = optionalBody(
  z.object({
    display_name: optionalNonZero(nameField(maxDisplayName)),
    description: optional(description()),
    role: optionalNonZero(z.enum(['user', 'admin'])).describe(
      'Only for account root users; only an admin can grant or revoke `admin`',
    ),
    status: optionalNonZero(z.enum(['enabled', 'disabled'])).describe('Account root only'),
    is_root_user: optional(z.boolean()).describe('Account root only; an account keeps an enabled root user'),
  }),
);

/** @throws {AppError} `invalid_name` */
export function toUserChange(body: z.output<typeof userChangeBody>): UserChange {
  const { display_name: name, description, role, status, is_root_user: isRootUser } = body;
  return {
    displayName: name === undefined ? undefined : checkDisplayName(name.trim()),
    description,
    role,
    status,
    isRootUser,
  };
}

const query = z.object({ ...pagingQuery, ...accountQuery, status: optionalQuery(z.enum(['enabled', 'disabled'])) });

/** `GET /v1/user-management/users`. */
export function listAccountUsers(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/users',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'listUsers',
      tags: ['Users'],
      summary: 'List the users of the account, newest first',
      description: '`status` filters the list.',
      querystring: query,
      response: {
        200: envelope(z.object({ users: z.array(userItemSchema), pagination: paginationSchema }), 'A page of users'),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const listing = toListing(deps, request, 50);
      const { status } = request.query;
      const { users, ...page } = await listUsers(deps.orm.em.fork(), requireScope(request), { status }, listing);
      return success({ users: users.map(presentUserItem), pagination: presentPagination(listing, page) });
    },
  });
}

const body = z.object({
  email: z.string().max(1024).describe('ASCII before the `@`; unique, ignoring case'),
  username: z
    .string()
    .max(256)
    .meta({ minLength: 1, maxLength: 64, pattern: usernamePattern })
    .describe('Unique in the account, ignoring case'),
  role: z.enum(['user', 'admin']).describe('Only an admin can make an admin'),
  display_name: optionalNonZero(nameField(maxDisplayName)).describe('Default: the user name'),
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
      const caller = requireCaller(request);
      const find = async (userId: UserId) => {
        const user = await findUserWithin(deps.orm.em, requireScope(request), userId);
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

/**
 * Refuses an address of a domain that belongs to the identity provider of another account.
 * @throws {AppError} `email_domain_not_allowed`
 */
export function requireOwnDomain(settings: Settings, accountId: AccountId, email: string): void {
  if (!isDomainOfOthers(settings.PLATFORM_OIDC_ISSUERS, accountId, email)) return;
  throw new AppError('email_domain_not_allowed', 'E-mail addresses of this domain belong to another account');
}

/** A user with a password could never sign in through an identity provider. */
function isInvitable(settings: Settings, accountId: AccountId, email: string): boolean {
  return settings.SMTP_URL !== undefined || isIssuerFor(settings.PLATFORM_OIDC_ISSUERS, accountId, email);
}

/** `GET /v1/user-management/users/{user_id}`. */
export function getUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/user-management/users/:user_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'getUser',
      tags: ['Users'],
      summary: 'Read a user of the account',
      description: "The user must be of the caller's account; an admin can read users of any account.",
      params: userPath,
      response: { 200: envelope(userSchema, 'The user'), ...failures('root_required', 'not_found') },
    },
    handler: async (request) => {
      const user = await findUserWithin(deps.orm.em, requireScope(request), request.params.user_id);
      if (!user) throw notFound('User');
      return success(presentUser(user));
    },
  });
}

/** `PUT /v1/user-management/users/{user_id}`. */
export function updateUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/user-management/users/:user_id',
    config: { bodyBytes: bodyBytesWithDescription, access: accountRoot('account') },
    schema: {
      operationId: 'updateUser',
      tags: ['Users'],
      summary: 'Change, disable or enable a user of the account',
      description:
        'A disabled user immediately loses all access: API keys, access tokens, exec streams, and connections ' +
        'through the ' +
        'gateway to the agents and private ports of their sandboxes. The sandboxes continue until their timeout.',
      params: userPath,
      body: userChangeBody,
      response: {
        200: messageEnvelope('The user is changed'),
        ...failures(
          ofMutations,
          'root_required',
          'admin_required',
          'not_found',
          'invalid_name',
          'last_root_user',
          'last_admin',
          'user_being_deleted',
        ),
      },
    },
    handler: async (request) => {
      const { user_id: userId } = request.params;
      const change = toUserChange(request.body);
      await changeUser(deps.orm.em.fork(), requireScope(request), requireCaller(request), userId, change);
      return successMessage('The user is changed');
    },
  });
}

const deletion = z.object({
  message: z.string(),
  deleted_empty_projects: z.int().min(0).describe('The number of removed projects without sandboxes'),
  deletion_status: z.enum(['in_progress']),
  note: z.string(),
});

/** `DELETE /v1/user-management/users/{user_id}`: disables the user at once, and deletes them in the background. */
export function deleteUser(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: '/v1/user-management/users/:user_id',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'deleteUser',
      tags: ['Users'],
      summary: 'Delete a user of the account',
      description:
        'Sandboxes of the user are terminated. Projects with ended sandboxes, and templates that others can ' +
        'see, go to a ' +
        'root user of the account; private templates, keys, notifications and quotas are removed. The user is listed as ' +
        'disabled until all of this is done.',
      params: userPath,
      response: {
        202: envelope(deletion, 'The deletion has begun'),
        ...failures(ofMutations, 'root_required', 'not_found', 'own_deletion', 'last_root_user', 'last_admin'),
      },
    },
    handler: async (request, reply) => {
      const { user_id: userId } = request.params;
      const emptyProjects = await requestUserDeletion(
        deps.orm.em.fork(),
        requireScope(request),
        requireCaller(request),
        userId,
      );
      return reply.code(202).send(
        success({
          message: 'The user is being deleted',
          deleted_empty_projects: emptyProjects,
          deletion_status: 'in_progress' as const,
          note:
            'Sandboxes are terminated and projects transferred in the background; the user is 404 when that is ' +
            'done',
        }),
      );
    },
  });
}
