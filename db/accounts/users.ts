import type { EntityManager } from '@mikro-orm/postgresql';
import type { UserId } from '../../domain/ids.ts';
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
