import pLimit from 'p-limit';
import { countSignIn, findSignIn, startSession } from '../db/accounts/sign-ins.ts';
import { emailKey, readEmailAddress } from '../domain/accounts/email-address.ts';
import { clientKey } from '../domain/client-address.ts';
import { AppError } from '../domain/errors.ts';
import type { ApiDependencies } from './dependencies.ts';

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
const underWay = pLimit(4);
/** A longer queue would take seconds, so further callers should retry later. */
const waitingAtMost = 100;

/**
 * Signs a user in with e-mail and password. An unknown e-mail, a disabled user and a wrong password take the same steps
 * and give the same answer.
 * @param attempt.address the address of the client
 * @throws {AppError} `invalid_credentials`, `too_many_sign_ins`, `account_suspended`, `temporarily_unavailable`
 */
export async function signIn(deps: ApiDependencies, attempt: SignInAttempt): Promise<AccessToken> {
  if (underWay.pendingCount >= waitingAtMost) {
    throw new AppError('temporarily_unavailable', 'Too many sign-ins are being processed; try again in some seconds');
  }
  return underWay(() => signInNow(deps, attempt));
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
