import type { EntityName } from '@mikro-orm/core';
import type { EntityManager } from '@mikro-orm/postgresql';
import { readColumns, toParameter } from './read-row.ts';
import type { SqlCondition } from './scope.ts';

/**
 * The statement that inserts a row, as a part of a larger statement. Undefined properties get the column's default in
 * the database, and not the default of the entity.
 */
export function insertStatement<Entity extends object>(
  em: EntityManager,
  entity: EntityName<Entity>,
  row: Partial<NoInfer<Entity>>,
): SqlCondition {
  const { tableName } = em.getMetadata().get<Entity>(entity);
  const given = readColumns(em, entity).filter(({ name }) => (row as Record<string, unknown>)[name] !== undefined);
  return {
    sql: `insert into ${tableName} (${given.map(({ column }) => column).join(', ')})
      values (${given.map(() => '?').join(', ')})`,
    values: given.map((column) => toParameter(column, row)),
  };
}
