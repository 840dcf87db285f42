import type { EntityManager } from '@mikro-orm/postgresql';
import { emailKey } from '../../domain/accounts/email-address.ts';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { query } from '../core/query.ts';
import { entitiesWithin, type Scope } from '../core/scope.ts';
import { Account } from './account.entity.ts';
import { User } from './user.entity.ts';

/** A user and their account. */
export async function findProfile(em: EntityManager, userId: UserId): Promise<{ user: User; account: Account }> {
  const user = await em.findOneOrFail(User, { userId });
  const account = await em.findOneOrFail(Account, { accountId: user.accountId });
  return { user, account };
}

/** The address for mails to an enabled user. */
export async function findMailReader(
  em: EntityManager,
  userId: UserId,
): Promise<{ name: string; address: string } | null> {
  const user = await em.fork().findOne(User, { userId, status: 'enabled' });
  return user && { name: user.displayName, address: user.email };
}

/** A user, if the user is within the scope. */
export function findUserWithin(em: EntityManager, scope: Scope, userId: UserId): Promise<User | null> {
  return em.fork().findOne(User, { ...entitiesWithin(scope, 'userId'), userId });
}

export async function isUserDisabled(em: EntityManager, userId: UserId): Promise<boolean> {
  return (await em.fork().count(User, { userId, status: 'disabled' })) > 0;
}

/** The user with an e-mail address, in any case. */
export async function findUserByEmail(em: EntityManager, email: string): Promise<UserId | null> {
  const [row] = await query<{ user_id: UserId }>(em, 'select user_id from users where lower(email) = ?', [
    emailKey(email),
  ]);
  return row?.user_id ?? null;
}

/** The user of an account with an e-mail address, or if it is null the oldest root user, an enabled one if there is one. */
export async function findUserOrRoot(
  em: EntityManager,
  accountId: AccountId,
  email: string | null,
): Promise<UserId | null> {
  const [row] = await query<{ user_id: UserId }>(
    em,
    `select user_id from users where account_id = ? and (lower(email) = ? or (?::text is null and is_root_user))
      order by status <> 'enabled', created_at limit 1`,
    [accountId, email && emailKey(email), email],
  );
  return row?.user_id ?? null;
}
