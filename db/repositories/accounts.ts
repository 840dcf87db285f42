import { randomBytes } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import { makeApiKey } from '../../domain/api-key.ts';
import type { AccountId, ApiKeyId, ProjectId, UserId } from '../../domain/ids.ts';
import { Account } from '../entities/account.ts';
import { ApiKey } from '../entities/api-key.ts';
import { Project } from '../entities/project.ts';
import { User } from '../entities/user.ts';
import { newId } from '../new-id.ts';
import { hashApiKey } from './identities.ts';

export interface NewAccount {
  email: string;
  displayName: string;
  planName: string;
  role: 'user' | 'admin';
}

export interface MadeAccount {
  accountId: AccountId;
  userId: UserId;
  projectId: ProjectId;
  keyId: ApiKeyId;
  /** Returned once; only its hash is stored. */
  apiKey: string;
}

/**
 * Makes an account with its root user, their default project and one API key, in the transaction of `em`.
 * @throws violates the constraint `users_email` when the e-mail belongs to another user
 */
export async function createAccount(em: EntityManager, wanted: NewAccount): Promise<MadeAccount> {
  const apiKey = makeApiKey(randomBytes(32));
  const ids = {
    accountId: newId('account'),
    userId: newId('user'),
    projectId: newId('project'),
    keyId: newId('apiKey'),
  };
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
  em.create(ApiKey, {
    keyId: ids.keyId,
    accountId: ids.accountId,
    userId: ids.userId,
    name: 'default',
    secretHash: hashApiKey(apiKey),
    prefix: apiKey.slice(0, 12),
  });
  await em.flush();
  return { ...ids, apiKey };
}
