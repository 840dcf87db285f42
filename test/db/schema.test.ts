import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { migrations } from '../../db/migrations/index.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 2);
});
afterAll(async () => {
  await orm.close();
  await database.drop();
});

interface ColumnOfSchema {
  name: string;
  type: string;
  nullable: boolean;
}

async function readColumns(table: string): Promise<ColumnOfSchema[]> {
  return (await orm.em.fork().execute(
    `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable
       from pg_attribute a where a.attrelid = ?::regclass and a.attnum > 0 and not a.attisdropped order by a.attname`,
    [table],
  )) as unknown as ColumnOfSchema[];
}

const entities = () =>
  [...orm.getMetadata().getAll().values()].filter(({ tableName, abstract }) => tableName && !abstract);

/** The Postgres names of types that have other names in MikroORM. */
function schemaType(type: string): string {
  const names: Record<string, string> = {
    'varchar(255)': 'text',
    int: 'integer',
    bool: 'boolean',
    bigserial: 'bigint',
  };
  if (Object.hasOwn(names, type)) return names[type]!;
  return type.replace(/^timestamptz\((\d)\)$/, 'timestamp($1) with time zone');
}

test('entities and the migrated schema have the same columns, types and nulls', async () => {
  expect(entities().length).toBeGreaterThan(8);
  for (const { tableName, props } of entities()) {
    const wanted = props
      .filter(({ persist }) => persist !== false)
      .map(({ fieldNames, columnTypes, nullable }) => ({
        name: fieldNames[0]!,
        type: schemaType(columnTypes[0]!),
        nullable: nullable === true,
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    const found = (await readColumns(tableName)).sort((a, b) => (a.name < b.name ? -1 : 1));
    expect([tableName, found]).toEqual([tableName, wanted]);
  }
});

test('entities and the migrated schema have the same primary keys', async () => {
  for (const { tableName, props } of entities()) {
    const rows = (await orm.em.fork().execute(
      `select a.attname as name from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        where i.indisprimary and i.indrelid = ?::regclass`,
      [tableName],
    )) as { name: string }[];
    const wanted = props.filter(({ primary }) => primary).map(({ fieldNames }) => fieldNames[0]!);
    expect([tableName, rows.map(({ name }) => name).sort()]).toEqual([tableName, wanted.sort()]);
  }
});

test('migrations run in the order of their names', () => {
  const names = migrations.map(({ name }) => name);
  expect(names.length).toBeGreaterThan(8);
  expect(names).toEqual([...names].sort());
});
