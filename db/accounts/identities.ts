import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { readApiKey } from '../../domain/accounts/api-key.ts';
import type { Plan } from '../../domain/billing/plans.ts';
import type { AccountId, ApiKeyId, SessionId, UserId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

/** The caller, with the facts that every route needs. */
export interface Identity {
  accountId: AccountId;
  userId: UserId;
  /** Null for an access token. */
  keyId: ApiKeyId | null;
  /** Null for an API key. */
  sessionId: SessionId | null;
  /** When the session expires. Null for an API key. */
  expiresAt: Date | null;
  role: 'user' | 'admin';
  isRootUser: boolean;
  planName: string;
  /** The plan with the terms of its purchase. Null: the account has no subscription yet. */
  boughtPlan: Plan | null;
  /** The account is suspended: it may read, but change nothing. */
  isSuspended: boolean;
}

/** The stored form of an API key's secret. */
export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

interface UserRow {
  user_id: UserId;
  account_id: AccountId;
  role: 'user' | 'admin';
  is_root_user: boolean;
  plan_name: string;
  bought_plan: Plan | null;
  account_status: string;
}

const userColumns =
  'u.user_id, u.account_id, u.role, u.is_root_user, a.plan_name, b.plan as bought_plan, a.status as account_status';

/**
 * The caller of an API key, in either spelling. Queried on every request and never cached, so a disabled key stops
 * working at once on every replica. Null: there is no such key, it is disabled, or its user is disabled.
 */
export async function identifyApiKey(em: EntityManager, text: string): Promise<Identity | null> {
  const secret = readApiKey(text);
  if (secret === null) return null;
  const [row] = await query<UserRow & { key_id: ApiKeyId; last_used_at: string | null }>(
    em.fork(),
    `select k.key_id, k.last_used_at, ${userColumns}
       from api_keys k join users u using (user_id) join accounts a on a.account_id = u.account_id
            left join subscriptions b on b.account_id = a.account_id
      where k.secret_hash = ? and k.is_active and u.status = 'enabled'`,
    [hashApiKey(secret)],
  );
  if (!row) return null;
  // A precision of one minute is enough, and avoids a write on every request.
  if (!row.last_used_at || Date.now() - new Date(row.last_used_at).getTime() > 60_000) {
    await query(em.fork(), 'update api_keys set last_used_at = now() where key_id = ?', [row.key_id]);
  }
  return { ...toIdentity(row), keyId: row.key_id };
}

/**
 * The caller of a genuine access token's claims. Queried on every request and never cached, so an ended session stops
 * working at once on every replica. Null: the session has ended, or its user is disabled.
 */
export async function identifySession(
  em: EntityManager,
  claims: { sessionId: SessionId; userId: UserId; keyId: string },
): Promise<Identity | null> {
  const [row] = await query<UserRow & { expires_at: string }>(
    em.fork(),
    `select s.expires_at, ${userColumns}
       from sessions s join users u using (user_id) join accounts a on a.account_id = u.account_id
            left join subscriptions b on b.account_id = a.account_id
      where s.session_id = ? and s.user_id = ? and s.key_id = ? and s.expires_at > now() and u.status = 'enabled'`,
    [claims.sessionId, claims.userId, claims.keyId],
  );
  if (!row) return null;
  return { ...toIdentity(row), sessionId: claims.sessionId, expiresAt: new Date(row.expires_at) };
}

/** The caller of a key or session id. Null: it has ended, or its user is disabled. */
export async function identifyCredential(em: EntityManager, credentialId: string): Promise<Identity | null> {
  const [row] = await query<UserRow>(
    em.fork(),
    `select ${userColumns}
       from users u join accounts a on a.account_id = u.account_id left join subscriptions b on b.account_id = a.account_id
      where u.status = 'enabled' and u.user_id in (
        select user_id from api_keys where key_id = ? and is_active
        union all
        select user_id from sessions where session_id = ? and expires_at > now())`,
    [credentialId, credentialId],
  );
  return row ? toIdentity(row) : null;
}

/** The credential of a caller: the id of the API key, or of the session. */
export function requireCredentialId({ keyId, sessionId }: Pick<Identity, 'keyId' | 'sessionId'>): string {
  const credentialId = keyId ?? sessionId;
  if (credentialId === null) throw new Error('a caller has shown neither a key nor a session');
  return credentialId;
}

/**
 * The keys and sessions of the list that still belong to an enabled user. A session that has expired still counts,
 * because streams that it opened continue.
 */
export async function usableCredentials(em: EntityManager, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await query<{ id: string }>(
    em.fork(),
    `select k.key_id as id from api_keys k join users u using (user_id)
      where k.key_id = any(?::text[]) and k.is_active and u.status = 'enabled'
     union all
     select s.session_id from sessions s join users u using (user_id)
      where s.session_id = any(?::text[]) and u.status = 'enabled'`,
    Array(2).fill(`{${ids.join(',')}}`),
  );
  return new Set(rows.map(({ id }) => id));
}

/** The rights on which the scope of an open stream depends. */
export type StreamRights = Pick<Identity, 'role' | 'isRootUser'>;

/** The current rights of the keys and sessions of the list, without those that have ended or belong to a disabled user. */
export async function readStreamRights(em: EntityManager, ids: readonly string[]): Promise<Map<string, StreamRights>> {
  const rows = await query<{ id: string; role: 'user' | 'admin'; is_root_user: boolean }>(
    em.fork(),
    `select k.key_id as id, u.role, u.is_root_user from api_keys k join users u using (user_id)
      where k.key_id = any(?::text[]) and k.is_active and u.status = 'enabled'
     union all
     select s.session_id, u.role, u.is_root_user from sessions s join users u using (user_id)
      where s.session_id = any(?::text[]) and s.expires_at > now() and u.status = 'enabled'`,
    Array(2).fill(`{${ids.join(',')}}`),
  );
  return new Map(rows.map(({ id, role, is_root_user: isRootUser }) => [id, { role, isRootUser }]));
}

function toIdentity(row: UserRow): Identity {
  return {
    accountId: row.account_id,
    userId: row.user_id,
    keyId: null,
    sessionId: null,
    expiresAt: null,
    role: row.role,
    isRootUser: row.is_root_user,
    planName: row.plan_name,
    boughtPlan: row.bought_plan,
    isSuspended: row.account_status === 'suspended',
  };
}
