import type { EntityManager } from '@mikro-orm/postgresql';
import type { UserId } from '../../domain/ids.ts';
import {
  addressesKnownDays,
  addressThrottle,
  failuresForgottenAfterSeconds,
  knownAddressHash,
  signInThrottles,
  throttleKeys,
} from '../../domain/sign-in-throttle.ts';
import { newId } from '../new-id.ts';
import { query } from '../query.ts';
import { type AuditedRequest, auditedRequest } from './audit-events.ts';

/** How long an access token works. */
export const sessionSeconds = 3600;

/** A user as a sign-in needs them. */
export interface SignInUser {
  userId: UserId;
  passwordHash: string | null;
  isEnabled: boolean;
  accountIsSuspended: boolean;
}

/**
 * Finds the user with this e-mail, in any case, and counts the attempt to prove a password before it is looked at, so
 * that many at once are not more than one after the other.
 * @returns `user`: null when there is none; `waitSeconds`: 0 when the attempt may go on, and then it counts as failed
 *   until `startSession` or `forgiveSignIn`
 */
export async function beginSignIn(
  em: EntityManager,
  attempt: { email: string; address: string },
): Promise<{ user: SignInUser | null; waitSeconds: number }> {
  const throttles = signInThrottles(attempt);
  const [row] = await query<{
    wait: number;
    user_id: UserId | null;
    password_hash: string | null;
    user_status: string;
    account_status: string;
  }>(em.fork(), 'select * from begin_sign_in(?, ?, ?::interval, ?::text[], ?::int[], ?::int[], ?::interval)', [
    attempt.email,
    knownAddressHash(attempt.address),
    `${addressesKnownDays} days`,
    arrayLiteral(throttles.map(({ key }) => key)),
    arrayLiteral(throttles.map(({ freeFailures }) => freeFailures)),
    arrayLiteral(throttles.map(({ longestWaitSeconds }) => longestWaitSeconds)),
    `${failuresForgottenAfterSeconds} seconds`,
  ]);
  const { wait, user_id: userId, password_hash: passwordHash, user_status: status, account_status: of } = row!;
  const user = userId && {
    userId,
    passwordHash,
    isEnabled: status === 'enabled',
    accountIsSuspended: of === 'suspended',
  };
  return { user: user || null, waitSeconds: Math.ceil(Math.max(0, Number(wait))) };
}

const arrayLiteral = (items: readonly (string | number)[]) => `{${items.join(',')}}`;

/** Takes back what an attempt counted as a failure. */
export async function forgiveSignIn(em: EntityManager, attempt: { email: string; address: string }): Promise<void> {
  const keys = throttleKeys(attempt);
  await query(em.fork(), 'select forgive_sign_in(?, ?::text[])', [keys.pair, arrayLiteral([keys.address, keys.email])]);
}

/**
 * Counts an attempt of somebody who comes from an identity provider, and has no password to guess, by the address alone.
 * @returns the seconds to wait; 0: it may go on, and counts as failed until `startIdentitySession` or `forgiveAddress`
 */
export async function admitAddress(em: EntityManager, address: string): Promise<number> {
  const { key, freeFailures, longestWaitSeconds } = addressThrottle(address);
  const [row] = await query<{ wait: number }>(
    em.fork(),
    'select admit_sign_in(array[?::text], array[?::int], array[?::int], ?::interval) as wait',
    [...[key, freeFailures, longestWaitSeconds, `${failuresForgottenAfterSeconds} seconds`]],
  );
  return Math.ceil(Math.max(0, Number(row!.wait)));
}

/** Takes back what an attempt of an address counted. */
export async function forgiveAddress(em: EntityManager, address: string): Promise<void> {
  await query(em.fork(), 'select forgive_sign_in(null, array[?::text])', [addressThrottle(address).key]);
}

export interface StartedSession {
  sessionId: string;
  /** Of the key that signs its token. */
  keyId: string;
  startedAt: Date;
  expiresAt: Date;
}

/**
 * Begins a session of a user who has proven who they are, takes back what the attempt counted as a failure, and records
 * the sign-in in the audit log.
 * @param proof.passwordHash the hash that the password matched: a password that was changed meanwhile begins nothing
 * @returns null when the user may no longer sign in
 */
export async function startSession(
  em: EntityManager,
  proof: { userId: UserId; passwordHash: string | null },
  attempt: { email: string; address: string },
): Promise<StartedSession | null> {
  const keys = throttleKeys(attempt);
  const forgiven = { pair: keys.pair, others: [keys.address, keys.email] };
  return beginSession(em.fork(), proof, attempt.address, forgiven, auditedRequest.getStore());
}

/**
 * Begins a session of a user whose identity a provider has proven, in the transaction of `tx`. Who calls it records it.
 * @param user as the transaction has read them
 * @param attempt.isCounted it counted as failed for its address, which is taken back
 * @returns null when the user may no longer sign in
 */
export async function startIdentitySession(
  tx: EntityManager,
  user: { userId: UserId; passwordHash: string | null },
  attempt: { address: string; isCounted: boolean },
): Promise<StartedSession | null> {
  const others = attempt.isCounted ? [addressThrottle(attempt.address).key] : [];
  return beginSession(tx, user, attempt.address, { pair: null, others }, undefined);
}

async function beginSession(
  em: EntityManager,
  proof: { userId: UserId; passwordHash: string | null },
  address: string,
  forgiven: { pair: string | null; others: readonly string[] },
  audited: AuditedRequest | undefined,
): Promise<StartedSession | null> {
  const sessionId = newId('session');
  const [row] = await query<{ key_id: string; started_at: Date; expires_at: Date }>(
    em,
    'select * from begin_session(?, ?, ?, ?::interval, ?, ?, ?::text[], ?, ?, ?)',
    [
      ...[sessionId, proof.userId, proof.passwordHash, `${sessionSeconds} seconds`],
      ...[knownAddressHash(address), forgiven.pair, arrayLiteral(forgiven.others)],
      ...(audited ? [newId('auditEvent'), audited.address, audited.requestId] : [null, null, null]),
    ],
  );
  if (!row) return null;
  return {
    sessionId,
    keyId: row.key_id,
    startedAt: new Date(row.started_at),
    expiresAt: new Date(row.expires_at),
  };
}

/** Ends a session: its token works nowhere any more. */
export async function endSession(em: EntityManager, sessionId: string): Promise<void> {
  await query(em.fork(), 'delete from sessions where session_id = ?', [sessionId]);
}
