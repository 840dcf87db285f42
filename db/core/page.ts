import type { EntityManager } from '@mikro-orm/postgresql';
import { query } from './query.ts';
import { readProperty } from './read-row.ts';
import { joinConditions, type SqlCondition } from './scope.ts';

/** Matching rows above this number are not counted, because that would read all of them for each page. */
export const maxCountedRows = 10_000;

/** The requested part of a list, and its order. */
export interface Listing<Column extends string = 'created_at'> {
  sortBy: Column;
  sortOrder: 'asc' | 'desc';
  /** The maximum number of rows. */
  limit: number;
  /** The number of rows before them. With `after`, it is not used. */
  offset: number;
  /**
   * The row before them. Unlike an offset, it finds the same next row when rows before it come and go. Null: they are
   * found by `offset`.
   */
  after: ListPosition | null;
}

/** The place of a row in the order of a list. The row itself need not exist any more. */
export interface ListPosition {
  /** The row's value of the column that the list is sorted by, as Postgres sends it. */
  value: string | null;
  /** The row's values of the key. */
  key: string[];
}

/** A page of a list without its rows. */
export interface ListPage {
  /** The number of rows of the whole list; at most one above `maxCountedRows`. */
  total: number;
  /** The last row of the page. Null: no row follows. */
  next: ListPosition | null;
}

/** The table of a list, and what its order depends on. */
export interface OrderedTable {
  alias: string;
  /** Unique columns that are not null. They determine the order of equal rows. */
  key: readonly string[];
  /** The order of equal rows. The default is ascending. */
  keyOrder?: 'asc' | 'desc';
  /**
   * Columns to sort by that may be null. Null is last in both directions. Other columns sort in the order of their
   * index.
   */
  nullable?: readonly string[];
}

/**
 * A table whose rows people list and read, with additional shown columns. All of it is the platform's own SQL, never a
 * caller's.
 */
export interface ListedTable extends OrderedTable {
  table: string;
  /** Expressions that are selected in addition to the table's own columns. */
  beside?: string;
  /** Joins that neither add nor remove rows. */
  joins?: string;
}

/**
 * The order of a list, and the condition for the rows of a page. Select one row more than `limit`, so that `endPage`
 * sees whether others follow.
 */
export function startPage(
  { alias, key, keyOrder = 'asc', nullable }: OrderedTable,
  { sortBy, sortOrder, limit, offset, after }: Listing<string>,
): { order: string; limited: SqlCondition; following: SqlCondition[] } {
  const column = `${alias}.${sortBy}`;
  const keys = key.map((name) => `${alias}.${name}`).join(', ');
  const keysInOrder = keyOrder === 'asc' ? keys : key.map((name) => `${alias}.${name} desc`).join(', ');
  const mayBeNull = nullable?.includes(sortBy) ?? false;
  return {
    order: `order by ${column} ${sortOrder}${mayBeNull ? ' nulls last' : ''}, ${keysInOrder}`,
    limited: { sql: 'limit ? offset ?', values: [limit + 1, after ? 0 : offset] },
    following: after ? [follow(after)] : [],
  };

  function follow({ value, key: last }: ListPosition): SqlCondition {
    const sameButLater = `(${keys}) ${keyOrder === 'asc' ? '>' : '<'} (${last.map(() => '?').join(', ')})`;
    if (value === null) return { sql: `${column} is null and ${sameButLater}`, values: last };
    const beyond = sortOrder === 'asc' ? '>' : '<';
    // The first comparison is the range that an index reads. The second removes the rows that a page has shown.
    const range = `${column} ${beyond}= ? and (${column} ${beyond} ? or ${sameButLater})`;
    return { sql: mayBeNull ? `(${range} or ${column} is null)` : range, values: [value, value, ...last] };
  }
}

/** Cuts rows to a page. @returns its last row, if others follow */
export function endPage<Row extends object>(
  { key }: OrderedTable,
  { sortBy, limit }: Listing<string>,
  selected: readonly Row[],
): { rows: Row[]; next: ListPosition | null } {
  const rows = selected.slice(0, limit);
  const last = rows.at(-1);
  if (!last || selected.length === rows.length) return { rows, next: null };
  const value = readProperty(last, sortBy) as string | null;
  return { rows, next: { value, key: key.map((name) => readProperty(last, name) as string) } };
}

/** A page of the rows that meet all conditions. It is selected before the joins, so its cost does not grow with them. */
export async function readPage<Row extends object>(
  em: EntityManager,
  listed: ListedTable,
  conditions: readonly SqlCondition[],
  listing: Listing<string>,
): Promise<ListPage & { rows: Row[] }> {
  const { table, alias, joins = '' } = listed;
  const { order, limited, following } = startPage(listed, listing);
  const where = joinConditions(conditions);
  const shown = joinConditions([...conditions, ...following]);
  const [selected, [counted]] = await Promise.all([
    query<Row>(
      em,
      `select ${formatColumns(listed)}
         from (select * from ${table} ${alias} where ${shown.sql} ${order} ${limited.sql}) ${alias} ${joins} ${order}`,
      [...shown.values, ...limited.values],
    ),
    query<{ total: number }>(
      em,
      `select count(*)::int as total
         from (select 1 from ${table} ${alias} where ${where.sql} limit ${maxCountedRows + 1}) counted`,
      where.values,
    ),
  ]);
  return { ...endPage(listed, listing, selected), total: counted!.total };
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
