import type { EntityManager } from '@mikro-orm/postgresql';

/** The objects on which running code may depend, by name such as `column sandboxes.name`, with their definitions. */
export type Schema = ReadonlyMap<string, { is: string; of: string | null; needsValue: boolean }>;

/** Tables, columns, constraints, unique indexes and functions of the database at present. */
export async function readSchema(em: EntityManager): Promise<Schema> {
  // Partitions are left out, because they are made and dropped as days pass.
  const rows = (await em.execute(`
    with tables as (select oid, relname as name from pg_class
       where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace)
    select 'table ' || name as object, 'table' as "is", null as "of", false as "needsValue" from tables
    union all
    select 'column ' || name || '.' || attname, format_type(atttypid, atttypmod), name,
           attnotnull and not atthasdef and attidentity = '' and attgenerated = ''
      from pg_attribute join tables on attrelid = tables.oid where attnum > 0 and not attisdropped
    union all
    select 'constraint ' || name || '.' || conname, pg_get_constraintdef(c.oid), name, false
      from pg_constraint c join tables on conrelid = tables.oid where contype <> 'n'
    union all
    select 'unique index ' || name || '.' || relname, pg_get_indexdef(indexrelid), name, false
      from pg_index join tables on indrelid = tables.oid join pg_class i on i.oid = indexrelid
      where indisunique and not exists (select from pg_constraint where conindid = indexrelid)
    union all
    select 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || ')',
           pg_get_function_result(oid), null, false
      from pg_proc where pronamespace = 'public'::regnamespace
  `)) as unknown as { object: string; is: string; of: string | null; needsValue: boolean }[];
  return new Map(rows.map(({ object, ...rest }) => [object, rest]));
}

/**
 * Changes of a migration that can break code of the previous release, one line each. Such a change must wait for the
 * release after the one whose code no longer needs the removed object, or always sets the newly required value.
 */
export function breakingChanges(before: Schema, after: Schema): string[] {
  const gone = [...before].filter(([object]) => !after.has(object));
  const goneTables = new Set(gone.filter(([object]) => object.startsWith('table ')).map(([object]) => object.slice(6)));
  // A removed table is listed without its columns. Removing a constraint breaks no code.
  const isRule = (object: string) => object.startsWith('constraint ') || object.startsWith('unique index ');
  const removed = gone
    .filter(([object, { of }]) => !isRule(object) && !(of !== null && goneTables.has(of)))
    .map(([object]) => `removes ${object}`);
  const changed = [...after].flatMap(([object, now]) => {
    const then = before.get(object);
    const isOfNewTable = now.of !== null && !before.has(`table ${now.of}`);
    if (isOfNewTable) return [];
    if (!then) {
      if (isRule(object)) return [`adds ${object}: ${now.is}`];
      return now.needsValue ? [`adds ${object} without a default`] : [];
    }
    if (then.is !== now.is) return [`changes ${object} from ${then.is} to ${now.is}`];
    return now.needsValue && !then.needsValue ? [`makes ${object} need a value`] : [];
  });
  return [...removed, ...changed].sort();
}
