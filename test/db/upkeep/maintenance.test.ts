import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { dropOldMetricsPartitions, makeMetricsPartitions } from '../../../db/upkeep/maintenance.ts';
import { farFromMidnight } from '../../support/far-from-midnight.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
/** How many days ago the migrations made the first partitions: the test run may have begun yesterday. */
let migratedDaysAgo: number;
beforeAll(async () => {
  await farFromMidnight();
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  migratedDaysAgo = (await partitions())[0]!.endsWith(day(0)) ? 0 : 1;
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const parents = ['sandbox_metrics', 'sandbox_metrics_minutes', 'sandbox_metrics_quarters'];
const partitions = async (): Promise<string[]> => {
  const rows = (await orm.em.fork().execute(
    `select inhrelid::regclass::text as name from pg_inherits
        where inhparent in (select to_regclass(name) from unnest(?::text[]) name) order by 1`,
    [`{${parents.join(',')}}`],
  )) as { name: string }[];
  return rows.map((row) => row.name);
};
const day = (fromToday: number) =>
  new Date(Date.now() + fromToday * 86_400_000).toISOString().slice(0, 10).replaceAll('-', '');
const ofDays = (from: number, to: number) =>
  parents.flatMap((parent) => Array.from({ length: to - from + 1 }, (_, index) => `${parent}_${day(from + index)}`));

test('partitions of coming days are made in advance, and once even if several processes ask', async () => {
  expect(await partitions()).toEqual(ofDays(-migratedDaysAgo, 2 - migratedDaysAgo));
  const made = await Promise.all([1, 2, 3, 4].map(() => makeMetricsPartitions(orm.em)));
  expect(made.reduce((sum, each) => sum + each)).toBe(3 * (1 + migratedDaysAgo));
  expect(await partitions()).toEqual(ofDays(-migratedDaysAgo, 3));
});

test('days older than seven days are removed, and the seventh stays', async () => {
  await orm.em
    .fork()
    .execute(
      "select make_metrics_partitions((now() at time zone 'UTC')::date - 10, (now() at time zone 'UTC')::date - 1)",
    );
  expect(await dropOldMetricsPartitions(orm.em)).toBe(9);
  expect(await partitions()).toEqual(ofDays(-7, 3));
  expect(await dropOldMetricsPartitions(orm.em)).toBe(0);
});

test('the wait for a reader that blocks the removal is limited', async () => {
  await orm.em
    .fork()
    .execute(
      "select make_metrics_partitions((now() at time zone 'UTC')::date - 9, (now() at time zone 'UTC')::date - 9)",
    );
  const reader = orm.em.fork();
  await reader.begin();
  await reader.execute('select count(*) from sandbox_metrics');
  await expect(dropOldMetricsPartitions(orm.em)).rejects.toThrow(/lock timeout/);
  await reader.rollback();
  expect(await dropOldMetricsPartitions(orm.em)).toBe(3);
}, 180_000);
