import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import pg from 'pg';
import { escapeLiteral } from '../../db/core/literals.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

let database: TestDatabase;
let orm: Orm;
beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 1);
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

/** Texts with many quotes and backslashes, and everything else that Postgres can store. */
const texts = fc
  .array(
    fc.oneof(
      fc.constantFrom("'", "''", '\\', "\\'", '\n', '?', '$1', '$$', '--', '/*', ' E'),
      fc.string({ unit: 'binary' }),
    ),
  )
  .map((parts) => parts.join('').replaceAll('\0', '').toWellFormed());

test('each text arrives in Postgres as it is, alone and within JSON, and as a literal like that of pg', async () => {
  const em = orm.em.fork();
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      expect(escapeLiteral(text)).toBe(pg.escapeLiteral(text));
      const [row] = await em.execute("select ? as text, ?::jsonb->>'text' as within", [text, JSON.stringify({ text })]);
      expect(row).toEqual({ text, within: text });
    }),
    { numRuns: 500 },
  );
});
