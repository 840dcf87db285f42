import type { EntityManager } from '@mikro-orm/postgresql';
import { Account } from '../entities/account.ts';
import { User } from '../entities/user.ts';

/** A user and their account. */
export async function findProfile(em: EntityManager, userId: string): Promise<{ user: User; account: Account }> {
  const user = await em.findOneOrFail(User, { userId });
  const account = await em.findOneOrFail(Account, { accountId: user.accountId });
  return { user, account };
}
