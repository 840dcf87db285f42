import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { isApiKeyShape } from '../../domain/api-key.ts';

/** Who is calling, as every route needs to know it. */
export interface Identity {
  accountId: string;
  userId: string;
  /** Null for a bearer token. */
  keyId: string | null;
  role: 'user' | 'admin';
  isRootUser: boolean;
  planName: string;
  /** The account is suspended: it may look, but change nothing. */
  isSuspended: boolean;
}

/** What is stored of an API key's secret. */
export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/**
 * The caller behind an API key. Asked on every request and never cached, so a disabled key stops working at once on
 * every replica. Null: no such key, disabled, or its user is disabled.
 */
export async function identifyApiKey(em: EntityManager, secret: string): Promise<Identity | null> {
  if (!isApiKeyShape(secret)) return null;
  const [row] = (await em.fork().execute(
    `select k.key_id, k.last_used_at, u.user_id, u.account_id, u.role, u.is_root_user, a.plan_name, a.status as account_status
       from api_keys k join users u using (user_id) join accounts a on a.account_id = u.account_id
      where k.secret_hash = ? and k.is_active and u.status = 'enabled'`,
    [hashApiKey(secret)],
  )) as {
    key_id: string;
    last_used_at: Date | null;
    user_id: string;
    account_id: string;
    role: 'user' | 'admin';
    is_root_user: boolean;
    plan_name: string;
    account_status: string;
  }[];
  if (!row) return null;
  // To the minute is enough, and a write on every request is not.
  if (!row.last_used_at || Date.now() - new Date(row.last_used_at).getTime() > 60_000) {
    await em.fork().execute('update api_keys set last_used_at = now() where key_id = ?', [row.key_id]);
  }
  return {
    accountId: row.account_id,
    userId: row.user_id,
    keyId: row.key_id,
    role: row.role,
    isRootUser: row.is_root_user,
    planName: row.plan_name,
    isSuspended: row.account_status === 'suspended',
  };
}
