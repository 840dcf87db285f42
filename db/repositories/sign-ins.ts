import type { EntityManager } from '@mikro-orm/postgresql';
import {
  addressesKnownDays,
  failuresForgottenAfterSeconds,
  knownAddressHash,
  type SignInThrottle,
  throttleKeys,
} from '../../domain/sign-in-throttle.ts';
import { newId } from '../new-id.ts';
import { auditedRequest } from './audit-events.ts';

/** How long an access token works. */
export const sessionSeconds = 3600;

/** A user as a sign-in needs them. */
export interface SignInUser {
  userId: string;
  passwordHash: string | null;
  isEnabled: boolean;
  accountIsSuspended: boolean;
  /** The user has signed in from there lately. */
  isKnownAddress: boolean;
}

/**
 * The user with this e-mail, in any case.
 * @param address from which they want to sign in
 */
export async function findSignInUser(em: EntityManager, email: string, address: string): Promise<SignInUser | null> {
  const [row] = (await em.fork().execute(
    `select u.user_id, u.password_hash, u.status, a.status as account_status, k.user_id is not null as is_known
       from users u join accounts a using (account_id) left join known_addresses k on ${isKnown}
      where lower(u.email) = lower(?)`,
    [knownAddressHash(address), email],
  )) as {
    user_id: string;
    password_hash: string | null;
    status: string;
    account_status: string;
    is_known: boolean;
  }[];
  if (!row) return null;
  return {
    userId: row.user_id,
    passwordHash: row.password_hash,
    isEnabled: row.status === 'enabled',
    accountIsSuspended: row.account_status === 'suspended',
    isKnownAddress: row.is_known,
  };
}

const isKnown = `k.user_id = u.user_id and k.address_hash = ?
  and k.last_used_at > now() - interval '${addressesKnownDays} days'`;

/**
 * Counts an attempt before its password is looked at, so that many at once are not more than one after the other.
 * @returns the seconds to wait; 0: it may go on, and counts as failed until `startSession`
 */
export async function admitSignIn(em: EntityManager, throttles: readonly SignInThrottle[]): Promise<number> {
  const [row] = (await em
    .fork()
    .execute('select admit_sign_in(?::text[], ?::int[], ?::int[], ?::interval) as wait', [
      arrayLiteral(throttles.map(({ key }) => key)),
      arrayLiteral(throttles.map(({ freeFailures }) => freeFailures)),
      arrayLiteral(throttles.map(({ longestWaitSeconds }) => longestWaitSeconds)),
      `${failuresForgottenAfterSeconds} seconds`,
    ])) as { wait: number }[];
  return Math.max(0, Number(row!.wait));
}

const arrayLiteral = (items: readonly (string | number)[]) => `{${items.join(',')}}`;

/** Takes back what an attempt counted as a failure. */
export async function forgiveSignIn(em: EntityManager, attempt: { email: string; address: string }): Promise<void> {
  const keys = throttleKeys(attempt);
  await em
    .fork()
    .execute('select forgive_sign_in(?, ?::text[])', [keys.pair, arrayLiteral([keys.address, keys.email])]);
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
  proof: { userId: string; passwordHash: string | null },
  attempt: { email: string; address: string },
): Promise<StartedSession | null> {
  const keys = throttleKeys(attempt);
  const request = auditedRequest.getStore();
  const [row] = (await em.fork().execute(
    `with session as (
       insert into sessions (session_id, user_id, key_id, created_at, expires_at)
       select ?, u.user_id, (select key_id from token_keys order by created_at desc limit 1), now(),
         date_trunc('second', now()) + interval '${sessionSeconds} seconds'
         from users u join accounts a using (account_id)
        where u.user_id = ? and u.password_hash is not distinct from ? and u.status = 'enabled' and a.status = 'active'
       returning session_id, user_id, key_id, created_at, expires_at
     ), login as (
       update users set last_login = now() where user_id in (select user_id from session)
     ), known as (
       insert into known_addresses (user_id, address_hash, last_used_at) select user_id, ?, now() from session
       on conflict (user_id, address_hash) do update set last_used_at = excluded.last_used_at
     ), audited as (
       insert into audit_events (event_id, account_id, actor_user_id, actor_session_id, address, request_id, action, object_id)
       select ?, u.account_id, u.user_id, session.session_id, ?, ?, 'signIn', u.user_id
         from session join users u using (user_id) where ?
     )
     select session.*, forgive_sign_in(?, ?::text[]) from session`,
    [
      newId('session'),
      proof.userId,
      proof.passwordHash,
      knownAddressHash(attempt.address),
      ...[newId('auditEvent'), request?.address ?? '', request?.requestId ?? '', request !== undefined],
      keys.pair,
      arrayLiteral([keys.address, keys.email]),
    ],
  )) as { session_id: string; key_id: string; created_at: Date; expires_at: Date }[];
  if (!row) return null;
  return {
    sessionId: row.session_id,
    keyId: row.key_id,
    startedAt: new Date(row.created_at),
    expiresAt: new Date(row.expires_at),
  };
}

/** Ends a session: its token works nowhere any more. */
export async function endSession(em: EntityManager, sessionId: string): Promise<void> {
  await em.fork().execute('delete from sessions where session_id = ?', [sessionId]);
}
