import { randomBytes } from 'node:crypto';
import { type EntityManager, LockMode } from '@mikro-orm/postgresql';
import { makeApiKey } from '../../domain/accounts/api-key.ts';
import { AppError, notFound } from '../../domain/errors.ts';
import type { AccountId, ApiKeyId, UserId } from '../../domain/ids.ts';
import { accountTransaction } from '../core/account-transaction.ts';
import { lockRow } from '../core/lock-row.ts';
import { containing, type ListedTable, type Listing, type ListPage, readOne, readPage } from '../core/page.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { entitiesWithin, type Scope, type SqlCondition, scopeTransaction, withinScope } from '../core/scope.ts';
import { ApiKey } from './api-key.entity.ts';
import { type AuditedFields, recordAudit } from './audit-events.ts';
import { hashApiKey } from './identities.ts';
import { type Person, type PersonRow, readPerson, selectPerson } from './people.ts';
import { User } from './user.entity.ts';

export interface ApiKeyView {
  key: ApiKey;
  owner: Person;
}

/** The limit includes disabled keys. They do not count towards the plan's limit, but each takes a row. */
const maxKeysPerUser = 100;

export const apiKeySortColumns = ['created_at', 'updated_at', 'last_used_at', 'name'] as const;

export interface ApiKeyFilter {
  userId?: UserId | undefined;
  isActive?: boolean | undefined;
  /** A part of the name. */
  search?: string | undefined;
}

const listed: ListedTable = {
  table: 'api_keys',
  alias: 'k',
  key: ['key_id'],
  beside: selectPerson('o', 'owner'),
  joins: 'join users o on o.user_id = k.user_id',
  nullable: ['last_used_at'],
};

/** A key that a caller may see. */
export async function findApiKeyView(em: EntityManager, scope: Scope, keyId: ApiKeyId): Promise<ApiKeyView | null> {
  const row = await readOne<ViewRow>(em, listed, [
    { sql: 'k.key_id = ?', values: [keyId] },
    withinScope(scope, 'k', 'user_id'),
  ]);
  return row && readView(em, row);
}

/** A page of the keys that a caller may see. */
export async function listApiKeyViews(
  em: EntityManager,
  scope: Scope,
  filter: ApiKeyFilter,
  listing: Listing<(typeof apiKeySortColumns)[number]>,
): Promise<ListPage & { views: ApiKeyView[] }> {
  const conditions: SqlCondition[] = [withinScope(scope, 'k', 'user_id')];
  if (filter.userId) conditions.push({ sql: 'k.user_id = ?', values: [filter.userId] });
  if (filter.isActive !== undefined) conditions.push({ sql: 'k.is_active = ?', values: [filter.isActive] });
  if (filter.search) conditions.push(containing(['k.name'], filter.search));
  const { rows, ...page } = await readPage<ViewRow>(em, listed, conditions, listing);
  return { views: rows.map((row) => readView(em, row)), ...page };
}

/**
 * Makes a key. Concurrent creates never exceed the number of active keys that the user may have.
 * @returns the key and its secret, which is returned once and not stored
 * @throws {AppError} `api_key_limit_reached`, `api_key_name_taken`
 */
export async function createApiKey(
  em: EntityManager,
  owner: { accountId: AccountId; userId: UserId },
  wanted: { keyId: ApiKeyId; name: string; description: string },
  planLimit: number,
): Promise<{ key: ApiKey; secret: string }> {
  const secret = makeApiKey(randomBytes(32));
  return accountTransaction(em, owner.accountId, async (tx) => {
    const limit = await lockForOneMore(tx, owner.userId, planLimit);
    const maxKeys = Math.max(limit, maxKeysPerUser);
    if ((await tx.count(ApiKey, { userId: owner.userId })) >= maxKeys) {
      throw new AppError(
        'api_key_limit_reached',
        `A user may have ${maxKeys} API keys, disabled ones included; delete one first`,
      );
    }
    const key = tx.create(ApiKey, {
      keyId: wanted.keyId,
      accountId: owner.accountId,
      userId: owner.userId,
      name: wanted.name,
      description: wanted.description,
      secretHash: hashApiKey(secret),
      prefix: secret.slice(0, 12),
    });
    return { key, secret };
  });
}

/** @throws {AppError} `not_found`, `api_key_name_taken` */
export async function updateApiKey(
  em: EntityManager,
  scope: Scope,
  keyId: ApiKeyId,
  change: { name?: string | undefined; description?: string | undefined },
): Promise<ApiKey> {
  return scopeTransaction(em, scope, async (tx) => {
    const key = await lockKey(tx, scope, keyId);
    const before = auditedFields(key);
    if (change.name !== undefined) key.name = change.name;
    if (change.description !== undefined) key.description = change.description;
    await recordAudit(tx, { accountId: key.accountId, objectId: keyId, before, after: auditedFields(key) });
    return key;
  });
}

/**
 * Enables or disables a key. A disabled key stops working with the next request.
 * @throws {AppError} `not_found`, `api_key_limit_reached`
 */
export async function setApiKeyActive(
  em: EntityManager,
  scope: Scope,
  keyId: ApiKeyId,
  isActive: boolean,
  planLimit: number,
): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const { accountId, userId, isActive: wasActive } = await lockKey(tx, scope, keyId);
    if (isActive && !wasActive) await lockForOneMore(tx, userId, planLimit);
    await tx.nativeUpdate(ApiKey, { keyId }, { isActive, updatedAt: new Date() });
    const [before, after] = [{ is_active: wasActive }, { is_active: isActive }];
    await recordAudit(tx, { accountId, objectId: keyId, before, after });
  });
}

/** @throws {AppError} `not_found` */
export async function deleteApiKey(em: EntityManager, scope: Scope, keyId: ApiKeyId): Promise<void> {
  await scopeTransaction(em, scope, async (tx) => {
    const key = await lockKey(tx, scope, keyId);
    tx.remove(key);
    await recordAudit(tx, { accountId: key.accountId, objectId: keyId, before: auditedFields(key), after: null });
  });
}

/** The number of active keys that a user may have: the user's own limit, or else the plan's. */
export async function activeKeyLimit(
  em: EntityManager,
  scope: Scope,
  userId: UserId,
  planLimit: number,
): Promise<number> {
  const user = await em.findOne(User, { ...entitiesWithin(scope, 'userId'), userId }, { fields: ['maxActiveApiKeys'] });
  return user?.maxActiveApiKeys ?? planLimit;
}

/** The fields of a key in the audit log. */
function auditedFields(key: ApiKey): AuditedFields {
  const { userId, name, description, isActive } = key;
  return { user_id: userId, name, description: description.slice(0, 1000), is_active: isActive };
}

async function lockForOneMore(tx: EntityManager, userId: UserId, planLimit: number): Promise<number> {
  await lockRow(tx, 'users', userId);
  const user = await tx.findOneOrFail(User, { userId }, { refresh: true });
  const limit = user.maxActiveApiKeys ?? planLimit;
  if ((await tx.count(ApiKey, { userId, isActive: true })) >= limit) {
    throw new AppError(
      'api_key_limit_reached',
      `A user may have ${limit} active API keys; disable or delete one first`,
    );
  }
  return limit;
}

async function lockKey(tx: EntityManager, scope: Scope, keyId: ApiKeyId): Promise<ApiKey> {
  const key = await tx.findOne(
    ApiKey,
    { keyId, ...entitiesWithin(scope, 'userId') },
    { lockMode: LockMode.PESSIMISTIC_WRITE },
  );
  if (!key) throw notFound('API key');
  return key;
}

type ViewRow = EntityRow<ApiKey> & PersonRow<'owner'>;

function readView(em: EntityManager, row: ViewRow): ApiKeyView {
  return { key: readRow(em, ApiKey, row), owner: readPerson(row, 'owner')! };
}
