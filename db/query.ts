import type { EntityManager } from '@mikro-orm/postgresql';

/**
 * Executes one SQL statement in the transaction of `em`, if it is in one. All SQL of the platform goes through here;
 * ARCHITECTURE.md says when a repository writes SQL and when it uses entities.
 * @param sql with a `?` for each value. Values never stand in the text itself
 * @returns the rows that it selects or returns, under the names of their columns. The caller says what they are: times,
 *   64-bit integers and decimals come as text, JSON as objects
 */
export function query<Row extends object = Record<string, unknown>>(
  em: EntityManager,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return em.execute<Row[]>(sql, values);
}
