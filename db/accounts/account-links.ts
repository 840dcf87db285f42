import { createHash } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { UserId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';

export type LinkPurpose = 'password-reset';

/** The stored form of a link's token. */
function hashLinkToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/**
 * Stores a link that works once. Adding the same link again changes nothing, so an attempt may be repeated.
 * @param link.provesEmail the link was only mailed to its user, so using it proves that the user reads that mail
 */
export async function addAccountLink(
  em: EntityManager,
  link: { token: string; purpose: LinkPurpose; userId: UserId; provesEmail: boolean; expiresAt: Date },
): Promise<void> {
  await query(
    em.fork(),
    `insert into account_links (token_hash, purpose, user_id, proves_email, expires_at) values (?, ?, ?, ?, ?)
     on conflict do nothing`,
    [hashLinkToken(link.token), link.purpose, link.userId, link.provesEmail, link.expiresAt],
  );
}

export interface AccountLink {
  userId: UserId;
  email: string;
  username: string;
  displayName: string;
  passwordHash: string | null;
}

/**
 * Links let users set passwords. A user who signs in through an identity provider gets no link, and that user's earlier
 * links do not work.
 */
const usable = `l.token_hash = ? and l.purpose = ? and l.ended_at is null and l.expires_at > now() and u.status = 'enabled'
  and (u.oauth_provider is null or u.password_hash is not null)`;

/** The user of a link, without using the link. Null: it was used, has expired, or does not exist. */
export async function findAccountLink(
  em: EntityManager,
  token: string,
  purpose: LinkPurpose,
): Promise<AccountLink | null> {
  const [row] = await query<{
    user_id: UserId;
    email: string;
    username: string;
    display_name: string;
    password_hash: string | null;
  }>(
    em.fork(),
    `select u.user_id, u.email, u.username, u.display_name, u.password_hash
       from account_links l join users u using (user_id) where ${usable}`,
    [hashLinkToken(token), purpose],
  );
  if (!row) return null;
  return {
    userId: row.user_id,
    email: row.email,
    username: row.username,
    displayName: row.display_name,
    passwordHash: row.password_hash,
  };
}

/**
 * Uses a link in the transaction of `em` that acts on it. Of concurrent uses, one succeeds. The link's row stays until
 * it expires, so that a late attempt to mail it does not make it usable again.
 * @returns null when it was used, has expired, or does not exist
 */
export async function useAccountLink(
  em: EntityManager,
  token: string,
  purpose: LinkPurpose,
): Promise<{ userId: UserId; provesEmail: boolean } | null> {
  const [row] = await query<{ user_id: UserId; proves_email: boolean }>(
    em,
    `update account_links l set ended_at = now() from users u where u.user_id = l.user_id and ${usable}
     returning l.user_id, l.proves_email`,
    [hashLinkToken(token), purpose],
  );
  return row ? { userId: row.user_id, provesEmail: row.proves_email } : null;
}
