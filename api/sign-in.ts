import pLimit from 'p-limit';
import { countSignIn, findSignIn, startSession } from '../db/repositories/sign-ins.ts';
import { clientKey } from '../domain/client-address.ts';
import { emailKey, readEmailAddress } from '../domain/email-address.ts';
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

/** Sign-ins under way in this process. The others wait here, where they take no connection of the database from other requests. */
const underWay = pLimit(4);
/** More than these take seconds; the caller had better come back. */
const waitingAtMost = 100;

/**
 * Signs a user in with e-mail and password. An unknown e-mail, a disabled user and a wrong password take the
 * same steps and get the same answer.
 * @param attempt.address of the client
 * @throws {AppError} `invalid_credentials`, `too_many_sign_ins`, `account_suspended`, `temporarily_unavailable`
 */
export async function signIn(deps: ApiDependencies, attempt: SignInAttempt): Promise<AccessToken> {
  if (underWay.pendingCount >= waitingAtMost) {
    throw new AppError('temporarily_unavailable', 'Too many sign-ins are under way; try again in some seconds');
  }
  return underWay(() => signInNow(deps, attempt));
}

async function signInNow(deps: ApiDependencies, { password, ...asked }: SignInAttempt): Promise<AccessToken> {
  const { em } = deps.orm;
  const attempt = {
    // A text that is no address belongs to no user. All such texts count as one address.
    email: emailKey(readEmailAddress(asked.email) ?? asked.email.slice(0, 320)),
    address: clientKey(asked.address),
  };
  const found = await findSignIn(em, attempt);
  requireNoWait(found.waitSeconds);
  const { user } = found;
  // The count runs beside argon2, which takes long. It decides first: a guess that it refuses does not learn whether it is right.
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
 * @param otherWay what the person can do instead of waiting
 * @throws {AppError} `too_many_sign_ins`
 */
export function requireNoWait(
  waitSeconds: number,
  otherWay = ', or have a link to a new password mailed to you',
): void {
  if (waitSeconds === 0) return;
  throw new AppError('too_many_sign_ins', `Too many attempts failed; try again in ${waitSeconds} s${otherWay}`, {
    retryAfterSeconds: waitSeconds,
  });
}
