import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { findAccountLink } from '../../../../db/accounts/account-links.ts';
import {
  findResettableUser,
  resetPassword as replaceByLink,
  changePassword as replacePassword,
} from '../../../../db/accounts/passwords.ts';
import { countSignIn, findSignIn, forgiveSignIn } from '../../../../db/accounts/sign-ins.ts';
import { findProfile, findUserWithin } from '../../../../db/accounts/users.ts';
import { requestStart } from '../../../../db/core/outbox.ts';
import { emailKey, readEmailAddress } from '../../../../domain/accounts/email-address.ts';
import { checkNewPassword, maxPasswordBytes, minPasswordLength } from '../../../../domain/accounts/password-rules.ts';
import { clientKey } from '../../../../domain/client-address.ts';
import { AppError, notFound } from '../../../../domain/errors.ts';
import type { UserId } from '../../../../domain/ids.ts';
import { accountRoot, anyone, anyUser, requireCaller, requireScope } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenId } from '../../../schemas/fields.ts';
import { envelope, failures, messageEnvelope, ofMutations, success, successMessage } from '../../../schemas/replies.ts';
import { givenPassword, requireNoWait } from './with-password.ts';

/**
 * A new password. The domain checks its rules and refuses it as `weak_password`. The schema only documents its length.
 */
const newPassword = () =>
  z
    .string()
    .describe(`At most ${maxPasswordBytes} bytes; none of the most common ones`)
    .meta({ minLength: minPasswordLength, maxLength: maxPasswordBytes });

/** Every request takes this long, so that its duration does not reveal whether a user has the e-mail address. */
const requestTakesMs = 300;

/** Mails a link to set a new password to the user with this e-mail address, if there is one. */
async function requestResetByEmail(deps: ApiDependencies, text: string): Promise<void> {
  await Promise.all([startReset(deps, readEmailAddress(text)), delay(requestTakesMs)]);
}

async function startReset(deps: ApiDependencies, email: string | null): Promise<void> {
  const user = email && (await findResettableUser(deps.orm.em, { email }));
  if (!user) return;
  const em = deps.orm.em.fork();
  requestStart(em, 'passwordReset', user.userId, user);
  await em.flush();
}

/**
 * Sets the password of the user of a mailed link, and invalidates the link.
 * @throws {AppError} `invalid_link`, `weak_password`, `password_not_changed`, `temporarily_unavailable`
 */
async function setPasswordByLink(
  deps: ApiDependencies,
  { token, password, address }: { token: string; password: string; address: string },
): Promise<void> {
  const user = await findAccountLink(deps.orm.em, token, 'password-reset');
  if (!user) throw invalidLink();
  checkNewPassword(password, 'new_password', [user.email, user.username]);
  if (user.passwordHash && (await deps.passwords.verify(user.passwordHash, password))) throw notChanged();
  const passwordHash = await deps.passwords.hash(password);
  const userId = await replaceByLink(deps.orm.em, { token, passwordHash, address: clientKey(address) });
  if (userId === null) throw invalidLink();
  deps.passwordResets.passwordWasSet(userId);
}

/**
 * Changes the password of a user who knows the current one. A wrong current password counts as a failed sign-in, so
 * that the holder of a stolen API key cannot guess it quickly.
 * @throws {AppError} `no_local_password`, `weak_password`, `wrong_password`, `password_not_changed`,
 * `too_many_sign_ins`, `temporarily_unavailable`
 */
async function changeOwnPassword(
  deps: ApiDependencies,
  change: { userId: UserId; current: string; next: string; address: string },
): Promise<void> {
  const { em } = deps.orm;
  const address = clientKey(change.address);
  const { user } = await findProfile(em.fork(), change.userId);
  if (!user.passwordHash) throw new AppError('no_local_password', 'This user has no password on this platform');
  checkNewPassword(change.next, 'new_password', [user.email, user.username]);
  const attempt = { email: emailKey(user.email), address };
  requireNoWait(await countSignIn(em, attempt, await findSignIn(em, attempt)));
  if (!(await deps.passwords.verify(user.passwordHash, change.current))) throw wrongPassword();
  await forgiveSignIn(em, attempt);
  if (change.next.normalize('NFC') === change.current.normalize('NFC')) throw notChanged();
  const to = await deps.passwords.hash(change.next);
  const isChanged = await replacePassword(em, { userId: user.userId, from: user.passwordHash, to, address });
  if (!isChanged) throw wrongPassword();
  deps.passwordResets.passwordWasSet(user.userId);
}

const invalidLink = () =>
  new AppError('invalid_link', 'The link is not valid: it was already used, has expired, or is incomplete');
const wrongPassword = () => new AppError('wrong_password', 'The current password is wrong');
const notChanged = () => new AppError('password_not_changed', 'The new password must differ from the current one');

const emailBody = z.object({ email: z.string().max(1024) });

/** `POST /v1/auth/forgot-password`. */
export function forgotPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/forgot-password',
    config: { access: anyone({ requestsPerMinute: 10 }) },
    schema: {
      operationId: 'forgotPassword',
      tags: ['Sign-in'],
      summary: 'Request a mail with a link to set a new password',
      description:
        'Always replies 202, whether or not a user has this e-mail. The link in the mail works once, for 30 ' +
        'minutes. While ' +
        'a link is valid, no second mail is sent.',
      body: emailBody,
      response: {
        202: messageEnvelope('If a user has this e-mail, a link is sent to it'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      await requestResetByEmail(deps, request.body.email);
      return reply
        .code(202)
        .send(successMessage('If a user has this e-mail, a link to set a new password is sent to it'));
    },
  });
}

const linkBody = z.object({
  token: z.string().max(256).describe('The token of the link in the mail'),
  new_password: newPassword(),
});

/** `POST /v1/auth/reset-password`. */
export function resetPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/reset-password',
    config: { access: anyone({ requestsPerMinute: 20 }) },
    schema: {
      operationId: 'resetPassword',
      tags: ['Sign-in'],
      summary: 'Set a new password with the token of a mailed link',
      description:
        'Ends all sessions of the user and makes their other links invalid. The token is used up, unless the password ' +
        'is refused.',
      body: linkBody,
      response: {
        200: messageEnvelope('The password is set; all sessions of the user have ended'),
        ...failures(ofMutations, 'invalid_link', 'weak_password', 'password_not_changed'),
      },
    },
    handler: async ({ body: { token, new_password: password }, ip: address }) => {
      await setPasswordByLink(deps, { token, password, address });
      return successMessage('The new password is set');
    },
  });
}

const changeBody = z.object({ current_password: givenPassword(), new_password: newPassword() });

/** `POST /v1/user-management/change-password`. */
export function changePassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/change-password',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'changePassword',
      tags: ['Users'],
      summary: 'Change your own password',
      description:
        'Ends all sessions of the user, including this one. Attempts with a wrong current password are ' +
        'throttled like ' +
        'sign-ins do.',
      body: changeBody,
      response: {
        200: messageEnvelope('The password is changed; all sessions of the user have ended'),
        ...failures(
          ofMutations,
          'weak_password',
          'wrong_password',
          'password_not_changed',
          'no_local_password',
          'too_many_sign_ins',
        ),
      },
    },
    handler: async (request) => {
      const { current_password: current, new_password: next } = request.body;
      await changeOwnPassword(deps, { userId: requireCaller(request).userId, current, next, address: request.ip });
      return successMessage('The password is changed; sign in again with the new one');
    },
  });
}

/** `POST /v1/user-management/request-password-reset`. */
export function requestPasswordReset(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/request-password-reset',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'requestPasswordReset',
      tags: ['Users'],
      summary: 'Request a mail to yourself with a link to set a new password',
      description:
        'The link in the mail works once, for 30 minutes. While a link is valid, another request is refused ' +
        'and says how ' +
        'long.',
      response: {
        200: messageEnvelope('The link is being mailed; it works for 30 minutes'),
        ...failures(ofMutations, 'no_local_password', 'password_reset_pending'),
      },
    },
    handler: async (request) => {
      const user = await findResettableUser(deps.orm.em, { userId: requireCaller(request).userId });
      if (!user) throw new AppError('no_local_password', 'This user signs in through an identity provider');
      await deps.passwordResets.request(user);
      return successMessage('A link to set a new password is being mailed to you; it works for 30 minutes');
    },
  });
}

/** `POST /v1/user-management/users/{user_id}/reset-password`. */
export function resetUserPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/user-management/users/:user_id/reset-password',
    config: { access: accountRoot('account') },
    schema: {
      operationId: 'resetUserPassword',
      tags: ['Users'],
      summary: 'Mail a user a link to set a new password',
      description: 'The link in the mail works once, for 30 minutes. Until it is used, the old password works.',
      params: z.object({ user_id: givenId('user') }),
      response: {
        200: envelope(z.object({ message: z.string() }), 'The link is being mailed; it works for 30 minutes'),
        ...failures(ofMutations, 'root_required', 'not_found', 'no_local_password', 'password_reset_pending'),
      },
    },
    handler: async (request) => {
      const { user_id: userId } = request.params;
      if (!(await findUserWithin(deps.orm.em, requireScope(request), userId))) throw notFound('User');
      const user = await findResettableUser(deps.orm.em, { userId });
      if (!user) {
        throw new AppError('no_local_password', 'The user is disabled, or signs in through an identity provider');
      }
      await deps.passwordResets.request(user);
      return success({ message: 'A link to set a new password is being mailed to the user; it works for 30 minutes' });
    },
  });
}
