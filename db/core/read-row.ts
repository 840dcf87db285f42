import type { EntityName, EntityProperty } from '@mikro-orm/core';
import type { EntityManager } from '@mikro-orm/postgresql';

type Row = Record<string, unknown>;

/** The columns of an entity's table. Only `readRow` reads their values. */
export type EntityRow<Entity> = { [Name in keyof Entity & string as SnakeCase<Name>]-?: unknown };

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? First extends Lowercase<First>
    ? `${First}${SnakeCase<Rest>}`
    : `_${Lowercase<First>}${SnakeCase<Rest>}`
  : '';

/**
 * Makes an entity's plain, unmanaged object from a row with all columns that SQL selected. It is for lists: an object
 * that the ORM manages costs ten times as much, and is only needed for writes.
 */
export function readRow<Entity extends object>(
  em: EntityManager,
  entity: EntityName<Entity>,
  row: EntityRow<NoInfer<Entity>>,
): Entity {
  const read: Row = {};
  for (const { name, column, convert } of readColumns(em, entity)) read[name] = convert((row as Row)[column]);
  return read as Entity;
}

/** The storage of an entity's property. */
export interface Column {
  name: string;
  column: string;
  convert(value: unknown): unknown;
}

const known = new WeakMap<object, Column[]>();

export function readColumns<Entity extends object>(em: EntityManager, entity: EntityName<Entity>): Column[] {
  const metadata = em.getMetadata().get<Entity>(entity);
  const columns =
    known.get(metadata) ??
    metadata.props.map((property) => ({
      name: property.name,
      column: property.fieldNames[0]!,
      convert: chooseConverter(property),
    }));
  known.set(metadata, columns);
  return columns;
}

/** Times, 64-bit integers and decimals arrive as strings. Other values need no conversion. */
function chooseConverter(property: EntityProperty): Column['convert'] {
  if (property.runtimeType === 'Date') return (value) => (value === null ? null : new Date(value as string));
  const isNumber =
    property.type === 'BigIntType' || (property.type === 'DecimalType' && property.runtimeType === 'number');
  if (isNumber) return (value) => (value === null ? null : Number(value));
  return (value) => value;
}

export function readProperty(row: object, name: string): unknown {
  return (row as Record<string, unknown>)[name] ?? null;
}

/** The value of a property as a parameter of a statement. */
export function toParameter({ name }: Column, row: object): unknown {
  const value = readProperty(row, name);
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}
