import type { EntityManager } from '@mikro-orm/postgresql';

/** Rows of which no column is read. */
export type UnreadRow = Record<never, unknown>;

/**
 * Executes one SQL statement, in the transaction of `em` if it is in one. All SQL of the platform uses this function.
 * db/README.md describes when to write SQL and when to use entities.
 * @param sql with a `?` for each value. The text itself never contains values
 * @returns the selected or returned rows, by the names of their columns. The caller declares them, and `npm run check`
 * compares the declaration with the database: times, 64-bit integers and decimals are strings, JSON values are objects
 */
export function query<Row extends object = UnreadRow>(
  em: EntityManager,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return em.execute<Row[]>(sql, values);
}
