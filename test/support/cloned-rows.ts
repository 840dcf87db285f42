import type { EntityManager } from '@mikro-orm/postgresql';

/**
 * Copies rows of a table, by default all, in one statement.
 * @param key the column of ids such as `sbx-…`, which get new random characters
 * @param more SQL for other columns, in which `n` is the number of the copy.
 */
export async function cloneRows(
  em: EntityManager,
  table: string,
  key: string,
  copies: number,
  more: Record<string, string> = {},
  where = 'true',
): Promise<void> {
  const fork = em.isInTransaction() ? em : em.fork();
  const columns: { column_name: string }[] = await fork.execute(
    `select column_name from information_schema.columns where table_name = ? and is_generated = 'NEVER'`,
    [table],
  );
  const newKey = `left(${key}, strpos(${key}, '-')) || substr(md5(random()::text || ${key} || n), 1, 20)`;
  const values: Record<string, string> = { [key]: newKey, ...more };
  const names = columns.map(({ column_name: name }) => name);
  await fork.execute(
    `insert into ${table} (${names.map((name) => `"${name}"`).join(', ')})
     select ${names.map((name) => values[name] ?? `"${name}"`).join(', ')} from ${table}, generate_series(1, ${copies}) n where ${where}`,
  );
}
