import { randomBytes } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { makeApiKey } from '../../domain/accounts/api-key.ts';
import type { AccountId, ApiKeyId, ProjectId, UserId } from '../../domain/ids.ts';
import { loadPlans } from '../billing/plans.ts';
import { subscribe } from '../billing/subscriptions.ts';
import { newId } from '../core/new-id.ts';
import { Account } from './account.entity.ts';
import { ApiKey } from './api-key.entity.ts';
import { hashApiKey } from './identities.ts';
import { Project } from './project.entity.ts';
import { User } from './user.entity.ts';

export interface NewAccount {
  email: string;
  displayName: string;
  planName: string;
  role: 'user' | 'admin';
}

export interface AccountIds {
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId;
}

export interface MadeAccount extends AccountIds {
  keyId: ApiKeyId;
  /** Returned once. Only its hash is stored. */
  apiKey: string;
}

/**
 * Makes an account with its subscription, its root user, their default project and one API key, in the transaction of
 * `em`.
 * @param plans by default those of the seed file
 * @throws a violation of the constraint `users_email` when the e-mail address belongs to another user
 */
export async function createAccount(em: EntityManager, wanted: NewAccount, plans = loadPlans()): Promise<MadeAccount> {
  const ids = await createAccountWithoutKey(em, wanted, plans);
  const apiKey = makeApiKey(randomBytes(32));
  const keyId = newId('apiKey');
  em.create(ApiKey, {
    keyId,
    accountId: ids.accountId,
    userId: ids.userId,
    name: 'default',
    secretHash: hashApiKey(apiKey),
    prefix: apiKey.slice(0, 12),
  });
  await em.flush();
  return { ...ids, keyId, apiKey };
}

/** As `createAccount`, without an API key. The operator makes the first key later. */
export async function createAccountWithoutKey(
  em: EntityManager,
  wanted: NewAccount,
  plans = loadPlans(),
): Promise<AccountIds> {
  const plan = plans.get(wanted.planName);
  const ids = { accountId: newId('account'), userId: newId('user'), projectId: newId('project') };
  em.create(Account, {
    accountId: ids.accountId,
    email: wanted.email,
    displayName: wanted.displayName,
    planName: wanted.planName,
  });
  await em.flush();
  em.create(User, {
    userId: ids.userId,
    accountId: ids.accountId,
    email: wanted.email,
    username: wanted.email.split('@')[0]!,
    displayName: wanted.displayName,
    role: wanted.role,
    isRootUser: true,
  });
  await em.flush();
  em.create(Project, {
    projectId: ids.projectId,
    accountId: ids.accountId,
    ownerUserId: ids.userId,
    name: 'Default',
    isDefault: true,
  });
  await subscribe(em, ids.accountId, plan);
  await em.flush();
  return ids;
}
