import type { EntityManager } from '@mikro-orm/postgresql';
import { accountTransaction } from '../account-transaction.ts';

/** The rows that a query may touch. A row outside of the scope is treated as if it did not exist. */
export type Scope =
  | { rows: 'user'; accountId: string; userId: string }
  | { rows: 'account'; accountId: string }
  | { rows: 'everything' };

/** SQL that holds for rows `alias` within the scope, and its parameters. */
export function withinScope(scope: Scope, alias: string, ownerColumn = 'owner_user_id'): SqlCondition {
  switch (scope.rows) {
    case 'user':
      return {
        sql: `${alias}.account_id = ? and ${alias}.${ownerColumn} = ?`,
        values: [scope.accountId, scope.userId],
      };
    case 'account':
      return { sql: `${alias}.account_id = ?`, values: [scope.accountId] };
    case 'everything':
      return { sql: 'true', values: [] };
  }
}

/** As `withinScope`, as a condition of MikroORM on an entity whose owner is the property `owner`. */
export function entitiesWithin<Owner extends string = 'ownerUserId'>(
  scope: Scope,
  owner: Owner = 'ownerUserId' as Owner,
): { accountId?: string } & { [property in Owner]?: string } {
  if (scope.rows === 'everything') return {};
  const { accountId } = scope;
  return scope.rows === 'account' ? { accountId } : { accountId, [owner]: scope.userId };
}

/** A transaction on rows within a scope; those of one account wait for each other here, not in the database. */
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

/** All of them at once. */
export function allOf(conditions: readonly SqlCondition[]): SqlCondition {
  return { sql: conditions.map((item) => item.sql).join(' and '), values: conditions.flatMap((item) => item.values) };
}
