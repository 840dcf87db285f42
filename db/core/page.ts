import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from './query.ts';
import { joinConditions, type SqlCondition } from './scope.ts';

/** Matching rows above this number are not counted, because that would read all of them for each page. */
export const maxCountedRows = 10_000;

/** The requested part of a list, and its order. */
export interface Listing<Column extends string = 'created_at'> {
  sortBy: Column;
  sortOrder: 'asc' | 'desc';
  /** The maximum number of rows, and the number of rows to skip before them. */
  limit: number;
  offset: number;
}

/**
 * A table whose rows people list and read, with additional shown columns. All of it is the platform's own SQL, never a
 * caller's.
 */
export interface ListedTable {
  table: string;
  alias: string;
  /** Unique. It determines the order of equal rows. */
  key: string;
  /** Expressions that are selected in addition to the table's own columns. */
  beside?: string;
  /** Joins that neither add nor remove rows. */
  joins?: string;
  /**
   * Columns to sort by that may be null. Null is last in both directions. Other columns sort in the order of their
   * index.
   */
  nullable?: readonly string[];
}

/**
 * A page of the rows that meet all conditions, and the number of such rows, which is at most one above
 * `maxCountedRows`. The page is selected before the joins, so
 * that its cost does not grow with the table.
 */
export async function readPage<Row extends object>(
  em: EntityManager,
  listed: ListedTable,
  conditions: readonly SqlCondition[],
  listing: Listing<string>,
): Promise<{ rows: Row[]; total: number }> {
  const { table, alias, key } = listed;
  const where = joinConditions(conditions);
  const nulls = listed.nullable?.includes(listing.sortBy) ? ' nulls last' : '';
  const order = `order by ${alias}.${listing.sortBy} ${listing.sortOrder}${nulls}, ${alias}.${key}`;
  const matching = `${table} ${alias} where ${where.sql}`;
  const [rows, [counted]] = await Promise.all([
    query<Row>(
      em,
      `select ${formatColumns(listed)}
         from (select * from ${matching} ${order} limit ? offset ?) ${alias} ${listed.joins ?? ''} ${order}`,
      [...where.values, listing.limit, listing.offset],
    ),
    query<{ total: number }>(
      em,
      `select count(*)::int as total from (select 1 from ${matching} limit ${maxCountedRows + 1}) counted`,
      where.values,
    ),
  ]);
  return { rows, total: counted!.total };
}

/** The row that meets all conditions, with the additional columns of a list. */
export async function readOne<Row extends object>(
  em: EntityManager,
  listed: ListedTable,
  conditions: readonly SqlCondition[],
): Promise<Row | null> {
  const { table, alias, joins = '' } = listed;
  const where = joinConditions(conditions);
  const [row] = await query<Row>(
    em,
    `select ${formatColumns(listed)} from ${table} ${alias} ${joins} where ${where.sql}`,
    where.values,
  );
  return row ?? null;
}

/** A search condition: one of the columns contains the text, in any case. */
export function containing(columns: readonly string[], text: string): SqlCondition {
  const pattern = `%${text.replace(/[\\%_]/g, '\\$&')}%`;
  return {
    sql: `(${columns.map((column) => `${column} ilike ?`).join(' or ')})`,
    values: columns.map(() => pattern),
  };
}

function formatColumns({ alias, beside }: ListedTable): string {
  return beside ? `${alias}.*, ${beside}` : `${alias}.*`;
}
