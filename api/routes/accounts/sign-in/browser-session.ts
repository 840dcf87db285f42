import { z } from 'zod';
import { endSession as removeSession } from '../../../../db/accounts/sign-ins.ts';
import { findProfile } from '../../../../db/accounts/users.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyone, anyUser, requireCaller } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { sendError } from '../../../plugins/errors.ts';
import { time } from '../../../schemas/fields.ts';
import { envelope, failures, messageEnvelope, ofMutations, success, successMessage } from '../../../schemas/replies.ts';
import { clearSessionCookie, isOwnPage, setSessionCookie } from '../../../session-cookie.ts';
import { signIn, signInBody } from './with-password.ts';

const url = '/v1/auth/session';

/** `POST /v1/auth/session`. */
export function startSession(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url,
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId: 'startSession',
      tags: ['Sign-in'],
      summary: 'Sign a browser in with e-mail and password',
      description:
        'Sets an HttpOnly cookie instead of returning a token. For an hour, requests of pages of the same origin are ' +
        'authenticated by it. Failed attempts delay the next ones as in `POST /v1/auth/sign-in`.',
      body: signInBody,
      response: {
        200: envelope(z.object({ expires_at: time() }), 'The browser has the cookie until then'),
        ...failures(ofMutations, 'invalid_credentials', 'too_many_sign_ins'),
      },
    },
    handler: async (request, reply) => {
      // Otherwise a page of a sandbox could sign its visitors in as another user.
      if (isOwnPage(request) === false) {
        throw new AppError('cross_site_request', 'A page of another origin may not sign this browser in');
      }
      const token = await signIn(deps, { ...request.body, address: request.ip });
      setSessionCookie(reply, deps.settings, token);
      reply.header('cache-control', 'no-store');
      return success({ expires_at: token.expiresAt });
    },
  });
}

const sessionSchema = z.object({
  user_id: z.string(),
  account_id: z.string(),
  email: z.string(),
  display_name: z.string(),
  role: z.enum(['user', 'admin']),
  is_root_user: z.boolean(),
  expires_at: time()
    .nullable()
    .describe('When the session ends. Null: the request has an API key, which does not expire'),
});

/** `GET /v1/auth/session`. */
export function getSession(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url,
    config: { access: anyUser('own') },
    schema: {
      operationId: 'getSession',
      tags: ['Sign-in'],
      summary: 'Read who is signed in, and until when',
      description:
        'Works with a cookie, an access token and an API key. `GET /v1/users/me` has all fields of the user.',
      response: { 200: envelope(sessionSchema, 'The caller and the end of their session'), ...failures() },
    },
    handler: async (request, reply) => {
      const { userId, expiresAt } = requireCaller(request);
      const { user } = await findProfile(deps.orm.em.fork(), userId);
      reply.header('cache-control', 'no-store');
      return success({
        user_id: userId,
        account_id: user.accountId,
        email: user.email,
        display_name: user.displayName,
        role: user.role,
        is_root_user: user.isRootUser,
        expires_at: expiresAt,
      });
    },
  });
}

/** `DELETE /v1/auth/session`. */
export function endSession(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url,
    config: { access: anyUser('own') },
    schema: {
      operationId: 'endSession',
      tags: ['Sign-in'],
      summary: 'Sign a browser out',
      description:
        'Ends the session, with the streams that were opened in it, and removes the cookie. The reply also removes the ' +
        'cookie of a session that has already ended (401).',
      response: {
        200: messageEnvelope('The session has ended'),
        ...failures(ofMutations, 'no_session'),
      },
    },
    errorHandler: (error, request, reply) => {
      if ((error as { code?: string }).code === 'unauthenticated') clearSessionCookie(reply, deps.settings);
      return sendError(error, request, reply);
    },
    handler: async (request, reply) => {
      const { sessionId } = requireCaller(request);
      if (sessionId === null) throw new AppError('no_session', 'An API key has no session to end');
      await removeSession(deps.orm.em, sessionId);
      clearSessionCookie(reply, deps.settings);
      return successMessage('Signed out');
    },
  });
}
