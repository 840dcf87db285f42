import { randomBytes } from 'node:crypto';
import { User } from '../../db/accounts/user.entity.ts';
import type { Caller, TestApi } from '../api/test-api.ts';
import type { Person } from '../support/console-people.ts';

/** Gives a user of an API without a whole platform a password, so that they can sign in to its console. */
export async function withPassword(api: TestApi, caller: Caller): Promise<Person> {
  const password = `pass-${randomBytes(9).toString('base64url')}`;
  const passwordHash = await api.dependencies.passwords.hash(password);
  const em = api.orm.em.fork();
  await em.nativeUpdate(User, { userId: caller.userId }, { passwordHash });
  const { email } = await em.findOneOrFail(User, { userId: caller.userId });
  return { email, password, apiKey: caller.key, accountId: caller.accountId };
}
