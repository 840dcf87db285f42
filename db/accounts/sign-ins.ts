import type { EntityManager } from '@mikro-orm/postgresql';
import {
  addressesKnownDays,
  addressThrottle,
  failuresForgottenAfterSeconds,
  knownAddressHash,
  type SignInThrottle,
  signInThrottles,
  throttleKeys,
} from '../../domain/accounts/sign-in-throttle.ts';
import type { SessionId, UserId } from '../../domain/ids.ts';
import { newId } from '../core/new-id.ts';
import { query } from '../core/query.ts';
import { type AuditedRequest, auditedRequest } from './audit-events.ts';

/** How long an access token works. */
export const sessionSeconds = 3600;

/** The fields of a user that a sign-in needs. */
export interface SignInUser {
  userId: UserId;
  passwordHash: string | null;
  isEnabled: boolean;
  accountIsSuspended: boolean;
}

interface Attempt {
  email: string;
  address: string;
}

/** The facts about an attempt to sign in before it is counted. */
export interface FoundSignIn {
  /** Null: there is no user with this e-mail address. */
  user: SignInUser | null;
  /** The user has recently signed in from this address. */
  isKnownAddress: boolean;
  /** Above 0: earlier attempts make this one wait. Then it is neither counted nor checked. */
  waitSeconds: number;
}

/** Finds the user with this e-mail address, in any case, and the time that an attempt has to wait. */
export async function findSignIn(em: EntityManager, attempt: Attempt): Promise<FoundSignIn> {
  const [row] = await query<{
    wait: number | null;
    is_known_address: boolean;
    user_id: UserId | null;
    password_hash: string | null;
    user_status: string | null;
    account_status: string | null;
  }>(em.fork(), 'select * from find_sign_in(?, ?, ?::interval, ?::text[])', [
    ...[attempt.email, knownAddressHash(attempt.address), `${addressesKnownDays} days`],
    arrayLiteral(signInThrottles(attempt).map(({ key }) => key)),
  ]);
  const { user_id: userId, password_hash: passwordHash, user_status: status, account_status: accountStatus } = row!;
  const user = userId && {
    ...{ userId, passwordHash },
    isEnabled: status === 'enabled',
    accountIsSuspended: accountStatus === 'suspended',
  };
  return { user: user || null, isKnownAddress: row!.is_known_address, waitSeconds: wholeSeconds(row!.wait) };
}

/**
 * Counts an attempt as failed, until `startSession` or `forgiveSignIn`. Concurrent attempts are counted one after the
 * other.
 * @returns the seconds to wait; above 0, the attempt is refused regardless of its password, and not counted
 */
export async function countSignIn(
  em: EntityManager,
  attempt: Attempt,
  { isKnownAddress }: Pick<FoundSignIn, 'isKnownAddress'>,
): Promise<number> {
  const throttles = signInThrottles(attempt);
  return countAttempt(em, isKnownAddress ? throttles.slice(0, 1) : throttles);
}

async function countAttempt(em: EntityManager, throttles: readonly SignInThrottle[]): Promise<number> {
  const [row] = await query<{ wait: number }>(
    em.fork(),
    'select admit_sign_in(?::text[], ?::int[], ?::int[], ?::interval) as wait',
    [
      arrayLiteral(throttles.map(({ key }) => key)),
      arrayLiteral(throttles.map(({ freeFailures }) => freeFailures)),
      arrayLiteral(throttles.map(({ longestWaitSeconds }) => longestWaitSeconds)),
      `${failuresForgottenAfterSeconds} seconds`,
    ],
  );
  return wholeSeconds(row!.wait);
}

const wholeSeconds = (wait: number | null) => Math.ceil(Math.max(0, Number(wait)));

const arrayLiteral = (items: readonly (string | number)[]) => `{${items.join(',')}}`;

/** Undoes the counted failure of an attempt. */
export async function forgiveSignIn(em: EntityManager, attempt: Attempt): Promise<void> {
  const keys = throttleKeys(attempt);
  await query(em.fork(), 'select forgive_sign_in(?, ?::text[])', [keys.pair, arrayLiteral([keys.address, keys.email])]);
}

/**
 * Counts an attempt through an identity provider, which has no password to guess, only by its address.
 * @returns the seconds to wait; 0: the attempt may continue, and counts as failed until `startIdentitySession` or
 * `forgiveAddress`
 */
export function admitAddress(em: EntityManager, address: string): Promise<number> {
  return countAttempt(em, [addressThrottle(address)]);
}

/** Undoes the counted attempt of an address. */
export async function forgiveAddress(em: EntityManager, address: string): Promise<void> {
  await query(em.fork(), 'select forgive_sign_in(null, array[?::text])', [addressThrottle(address).key]);
}

export interface StartedSession {
  sessionId: SessionId;
  /** The id of the key that signs its token. */
  keyId: string;
  startedAt: Date;
  expiresAt: Date;
}

/**
 * Begins a session of a user with a proven identity, undoes the attempt's counted failure, and records the sign-in in
 * the audit log.
 * @param proof.passwordHash the hash that matched the password; if the password was changed meanwhile, no session
 * begins
 * @returns null when the user may no longer sign in
 */
export async function startSession(
  em: EntityManager,
  proof: { userId: UserId; passwordHash: string | null },
  attempt: Attempt,
): Promise<StartedSession | null> {
  const keys = throttleKeys(attempt);
  const forgiven = { pair: keys.pair, others: [keys.address, keys.email] };
  return beginSession(em.fork(), proof, attempt.address, forgiven, auditedRequest.getStore());
}

/**
 * Begins a session of a user whose identity a provider has proven, in the transaction of `tx`. The caller records it in
 * the audit log.
 * @param user the row as read in the transaction
 * @param attempt.isCounted the attempt counted as a failure of its address, which is undone
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
  const [row] = await query<{ key_id: string; started_at: string; expires_at: string }>(
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

/** Ends a session: its token no longer works. */
export async function endSession(em: EntityManager, sessionId: SessionId): Promise<void> {
  await query(em.fork(), 'delete from sessions where session_id = ?', [sessionId]);
}
