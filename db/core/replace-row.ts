import type { EntityName } from '@mikro-orm/core';
import type { EntityManager } from '@mikro-orm/postgresql';
import { Event } from './event.entity.ts';
import { query } from './query.ts';
import { readColumns, readProperty, toParameter } from './read-row.ts';
import type { SqlCondition } from './scope.ts';

/**
 * Writes the difference between two states of a row, and the other effects of the change, in one statement. Writes
 * nothing if the row is no longer the version that was read.
 * @param change `version`: the row's `xmin` at the read
 * @param inserts statements that read from `changed`, which has a row only if the row still had that version
 * @returns whether the row still had that version
 */
export async function replaceRow<Entity extends object>(
  em: EntityManager,
  entity: EntityName<Entity>,
  change: { before: Entity; after: Entity; version: string },
  events: readonly Event[],
  inserts: readonly SqlCondition[] = [],
): Promise<boolean> {
  const { tableName, primaryKeys } = em.getMetadata().get<Entity>(entity);
  const columns = readColumns(em, entity);
  const key = columns.find(({ name }) => name === primaryKeys[0])!;
  const changed = columns.filter(
    ({ name }) => !same(readProperty(change.before, name), readProperty(change.after, name)),
  );
  if (changed.length === 0 && events.length === 0 && inserts.length === 0) return true;
  const sets = changed.map(({ column }) => `${column} = ?, `).join('');
  const eventColumns = readColumns(em, Event);
  const recorded = events.map(() => `(${eventColumns.map(() => '?').join(', ')})`).join(', ');
  const types = eventColumns.map(({ column }) => `recorded.${column}::${eventTypes[column] ?? 'text'}`).join(', ');
  const names = eventColumns.map(({ column }) => column).join(', ');
  const insert = `, written as (insert into events (${names})
      select ${types} from (values ${recorded}) recorded (${names}), changed)`;
  const rows = await query(
    em,
    `with changed as (update ${tableName} set ${sets}updated_at = now()
       where ${key.column} = ? and xmin = ?::xid returning 1)${events.length === 0 ? '' : insert}
     ${inserts.map(({ sql }, index) => `, inserted_${index} as (${sql})`).join('')}
     select 1 from changed`,
    [
      ...changed.map((column) => toParameter(column, change.after)),
      readProperty(change.after, key.name),
      change.version,
      ...events.flatMap((event) => eventColumns.map((column) => toParameter(column, event))),
      ...inserts.flatMap(({ values }) => values),
    ],
  );
  return rows.length === 1;
}

const eventTypes: Record<string, string> = { sequence: 'integer', data: 'jsonb', created_at: 'timestamptz' };

function same(a: unknown, b: unknown): boolean {
  return a instanceof Date && b instanceof Date ? a.getTime() === b.getTime() : a === b;
}
