/**
 * What a caller may see: their own things, and as account root everything of the account. What lies outside answers
 * as if it did not exist.
 */
export interface Scope {
  accountId: string;
  userId: string;
  isRootUser: boolean;
}

/** SQL that holds for rows `alias` the caller may see, and its parameters. */
export function withinScope(scope: Scope, alias: string, ownerColumn = 'owner_user_id'): SqlCondition {
  return scope.isRootUser
    ? { sql: `${alias}.account_id = ?`, values: [scope.accountId] }
    : { sql: `${alias}.account_id = ? and ${alias}.${ownerColumn} = ?`, values: [scope.accountId, scope.userId] };
}

export interface SqlCondition {
  sql: string;
  values: unknown[];
}

/** All of them at once. */
export function allOf(conditions: readonly SqlCondition[]): SqlCondition {
  return { sql: conditions.map((item) => item.sql).join(' and '), values: conditions.flatMap((item) => item.values) };
}

/** Text as a LIKE pattern that finds it anywhere. */
export function containing(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`;
}
