import pLimit from 'p-limit';
import { z } from 'zod';
import { countSignIn, endSession, findSignIn, startSession } from '../../../../db/accounts/sign-ins.ts';
import { emailKey, readEmailAddress } from '../../../../domain/accounts/email-address.ts';
import { clientKey } from '../../../../domain/client-address.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyone, anyUser, requireCaller } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { time } from '../../../schemas/fields.ts';
import { envelope, failures, messageEnvelope, ofMutations, success, successMessage } from '../../../schemas/replies.ts';

export interface AccessToken {
  accessToken: string;
  expiresAt: Date;
}

interface SignInAttempt {
  email: string;
  password: string;
  address: string;
}

/**
 * Concurrent sign-ins in this process. Further sign-ins wait here, so that they do not take database connections from
 * other requests.
 */
const inProgress = pLimit(4);
/** A longer queue would take seconds, so further callers should retry later. */
const waitingAtMost = 100;

/**
 * Signs a user in with e-mail and password. An unknown e-mail, a disabled user and a wrong password take the same steps
 * and give the same answer.
 * @param attempt.address the address of the client
 * @throws {AppError} `invalid_credentials`, `too_many_sign_ins`, `account_suspended`, `temporarily_unavailable`
 */
export async function signIn(deps: ApiDependencies, attempt: SignInAttempt): Promise<AccessToken> {
  if (inProgress.pendingCount >= waitingAtMost) {
    throw new AppError('temporarily_unavailable', 'Too many sign-ins are being processed; try again in some seconds');
  }
  return inProgress(() => signInNow(deps, attempt));
}

async function signInNow(deps: ApiDependencies, { password, ...asked }: SignInAttempt): Promise<AccessToken> {
  const { em } = deps.orm;
  const attempt = {
    // A text that is not an address belongs to no user. All such texts count as one address.
    email: emailKey(readEmailAddress(asked.email) ?? asked.email.slice(0, 320)),
    address: clientKey(asked.address),
  };
  const found = await findSignIn(em, attempt);
  requireNoWait(found.waitSeconds);
  const { user } = found;
  // The throttle runs concurrently with argon2, which takes long. The throttle decides first, so a throttled guess does
  // not reveal whether it is right.
  const [isRight, waitSeconds] = await Promise.all([
    deps.passwords.verify(user?.passwordHash ?? null, password),
    countSignIn(em, attempt, found),
  ]);
  requireNoWait(waitSeconds);
  if (!user || !isRight || !user.isEnabled) {
    throw new AppError('invalid_credentials', 'The e-mail or the password is wrong');
  }
  if (user.accountIsSuspended) throw new AppError('account_suspended', 'The account is suspended');
  const session = await startSession(em, user, attempt);
  if (!session) throw new AppError('invalid_credentials', 'The e-mail or the password is wrong');
  return { accessToken: await deps.accessTokens.make(session, user.userId), expiresAt: session.expiresAt };
}

/**
 * Refuses a sign-in that has to wait.
 * @param otherWay the person's alternative to waiting
 * @throws {AppError} `too_many_sign_ins`
 */
export function requireNoWait(waitSeconds: number, otherWay = ', or request a link to set a new password'): void {
  if (waitSeconds === 0) return;
  throw new AppError('too_many_sign_ins', `Too many attempts failed; try again in ${waitSeconds} s${otherWay}`, {
    retryAfterSeconds: waitSeconds,
  });
}

/** The reply to every way of signing in. */
export const tokenSchema = z
  .object({
    access_token: z.string().describe('For `Authorization: Bearer …`, on every route that accepts an API key'),
    expires_at: time(),
  })
  .meta({ id: 'AccessToken' });

/** A password to compare, not to set. A longer one is simply a wrong password. */
export const givenPassword = () => z.string().max(16_384);

export const signInBody = z.object({ email: z.string().max(1024), password: givenPassword() });

/** `POST /v1/auth/sign-in`. */
export function signInWithPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/sign-in',
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId: 'signIn',
      tags: ['Sign-in'],
      summary: 'Sign in with e-mail and password',
      description:
        'The access token works for an hour on every route that accepts an API key, as `Authorization: Bearer ' +
        '<token>`. Failed ' +
        'attempts delay the next ones: `Retry-After` says how long to wait.',
      body: signInBody,
      response: {
        200: envelope(tokenSchema, 'An access token, which works for an hour'),
        ...failures(ofMutations, 'invalid_credentials', 'too_many_sign_ins'),
      },
    },
    handler: async (request, reply) => {
      const { accessToken, expiresAt } = await signIn(deps, { ...request.body, address: request.ip });
      reply.header('cache-control', 'no-store');
      return success({ access_token: accessToken, expires_at: expiresAt });
    },
  });
}

/** `POST /v1/auth/sign-out`. */
export function signOut(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/sign-out',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'signOut',
      tags: ['Sign-in'],
      summary: 'End the session of the access token in the request',
      description:
        'The session ends immediately, with the exec streams that were opened in it. A request with an API key ' +
        'has no ' +
        'session to end.',
      response: {
        200: messageEnvelope('The token no longer works'),
        ...failures(ofMutations, 'no_session'),
      },
    },
    handler: async (request) => {
      const { sessionId } = requireCaller(request);
      if (sessionId === null) throw new AppError('no_session', 'An API key has no session to end');
      await endSession(deps.orm.em, sessionId);
      return successMessage('Signed out');
    },
  });
}
