import type { EntityManager } from '@mikro-orm/postgresql';
import { knownAddressHash } from '../../domain/accounts/sign-in-throttle.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { useAccountLink } from './account-links.ts';
import { recordAudit } from './audit-events.ts';

/**
 * Changes a password if it is still the one that was checked. All sessions and open links of the user end.
 * @returns false when the password was changed meanwhile
 */
export async function changePassword(
  em: EntityManager,
  change: { userId: UserId; from: string; to: string; address: string },
): Promise<boolean> {
  return em.fork().transactional(async (tx) => {
    const changed = await query(
      tx,
      'update users set password_hash = ?, updated_at = now() where user_id = ? and password_hash = ? returning 1',
      [change.to, change.userId, change.from],
    );
    if (changed.length === 0) return false;
    await rememberAddress(tx, change.userId, change.address);
    return true;
  });
}

/**
 * Sets the password of a link's user, and invalidates the link. All sessions and other open links of the user end. The
 * address becomes a known one.
 * @returns the user; null when the link was used, has expired, or never existed
 */
export async function resetPassword(
  em: EntityManager,
  reset: { token: string; passwordHash: string; address: string },
): Promise<UserId | null> {
  return em.fork().transactional(async (tx) => {
    const link = await useAccountLink(tx, reset.token, 'password-reset');
    if (!link) return null;
    const { userId } = link;
    // Since the link was read, the user may have signed in through an identity provider.
    const [user] = await query<{ account_id: AccountId }>(
      tx,
      `update users set password_hash = ?, email_verified = email_verified or ?, updated_at = now()
        where user_id = ? and (oauth_provider is null or password_hash is not null) returning account_id`,
      [reset.passwordHash, link.provesEmail, userId],
    );
    if (!user) return null;
    await rememberAddress(tx, userId, reset.address);
    const of = { accountId: user.account_id, objectId: userId, provenUserId: userId, before: null, after: null };
    await recordAudit(tx, { ...of, action: 'resetPassword' });
    return userId;
  });
}

async function rememberAddress(tx: EntityManager, userId: UserId, address: string): Promise<void> {
  await query(
    tx,
    `insert into known_addresses (user_id, address_hash, last_used_at) values (?, ?, now())
     on conflict (user_id, address_hash) do update set last_used_at = excluded.last_used_at`,
    [userId, knownAddressHash(address)],
  );
}

/**
 * The user who may get a link to set a new password. A user who signs in through an identity provider gets none,
 * because the provider controls that user's access.
 */
export async function findResettableUser(
  em: EntityManager,
  by: { email: string } | { userId: UserId },
): Promise<{ userId: UserId; accountId: AccountId } | null> {
  const [row] = await query<{ userId: UserId; accountId: AccountId }>(
    em.fork(),
    `select user_id as "userId", account_id as "accountId" from users
      where ${'email' in by ? 'lower(email) = lower(?)' : 'user_id = ?'} and status = 'enabled' and (oauth_provider is null or password_hash is not null)`,
    ['email' in by ? by.email : by.userId],
  );
  return row ?? null;
}
