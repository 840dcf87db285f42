import type { EntityManager } from '@mikro-orm/postgresql';
import type { AccountId, UserId } from '../../domain/ids.ts';
import { accountTransaction } from './account-transaction.ts';

/** The rows that a query may use. Rows outside the scope are treated as if they did not exist. */
export type Scope =
  | { rows: 'user'; accountId: AccountId; userId: UserId }
  | { rows: 'account'; accountId: AccountId }
  | { rows: 'everything' };

/** An SQL condition for rows `alias` within the scope, and its parameters. Its type has its possible texts. */
export function withinScope<Alias extends string, Owner extends string = 'owner_user_id'>(
  scope: Scope,
  alias: Alias,
  ownerColumn: Owner = 'owner_user_id' as Owner,
) {
  switch (scope.rows) {
    case 'user':
      return {
        sql: `${alias}.account_id = ? and ${alias}.${ownerColumn} = ?` as const,
        values: [scope.accountId, scope.userId],
      };
    case 'account':
      return { sql: `${alias}.account_id = ?` as const, values: [scope.accountId] };
    case 'everything':
      return { sql: 'true' as const, values: [] };
  }
}

/** `withinScope` as a condition of MikroORM, for an entity with the owner in the property `owner`. */
export function entitiesWithin<Owner extends string = 'ownerUserId'>(
  scope: Scope,
  owner: Owner = 'ownerUserId' as Owner,
): { accountId?: AccountId } & { [property in Owner]?: UserId } {
  const within: { accountId?: AccountId; [property: string]: string | undefined } = {};
  if (scope.rows !== 'everything') within.accountId = scope.accountId;
  if (scope.rows === 'user') within[owner] = scope.userId;
  return within as { accountId?: AccountId } & { [property in Owner]?: UserId };
}

/**
 * Runs a transaction on rows within a scope. Transactions of one account wait for each other here, not in the database.
 */
export function scopeTransaction<T>(
  em: EntityManager,
  scope: Scope,
  work: (tx: EntityManager) => Promise<T>,
): Promise<T> {
  return accountTransaction(em, scope.rows === 'everything' ? 'every account' : scope.accountId, work);
}

export interface SqlCondition {
  sql: string;
  values: unknown[];
}

/** All of the conditions at once. */
export function joinConditions(conditions: readonly SqlCondition[]): SqlCondition {
  return { sql: conditions.map((item) => item.sql).join(' and '), values: conditions.flatMap((item) => item.values) };
}
