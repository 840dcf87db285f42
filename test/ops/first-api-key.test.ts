import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { identifyApiKey } from '../../db/accounts/identities.ts';
import { query } from '../../db/core/query.ts';
import { createOrm, type Orm } from '../../db/orm.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';

const root = path.resolve(import.meta.dirname, '../..');
let databases: TestDatabase[];
let orm: Orm;

beforeAll(async () => {
  databases = [await testDatabase(), await testDatabase()];
  orm = await createOrm(databases[0]!.url, 1);
}, 180_000);
afterAll(async () => {
  await orm?.close();
  for (const database of databases ?? []) await database.drop();
});

async function run(database: TestDatabase, script: string, ...args: string[]): Promise<string> {
  const env = {
    ...process.env,
    NODE_OPTIONS: '',
    DATABASE_URL: database.url,
    PLATFORM_SECRET_KEY: Buffer.alloc(32, 1).toString('base64'),
    PLATFORM_ROOT_EMAIL: 'root@example.com',
  };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [script, ...args], { cwd: root, env });
  return stdout + stderr;
}

const migrate = async (database: TestDatabase, ...args: string[]) => {
  const output = await run(database, 'db/migrate.ts', ...args);
  return JSON.parse(output.trim().split('\n').at(-1)!);
};

test('migrations make the first account without a key; the operator makes its first key, as long as it is the only account', async () => {
  const [database] = databases;
  expect(await migrate(database!)).toEqual({ created: true, email: 'root@example.com' });
  expect(await query(orm.em.fork(), 'select key_id from api_keys')).toEqual([]);
  expect(await migrate(database!)).toEqual({ created: false });

  const made = JSON.parse(await run(database!, 'ops/operator/admin.ts', 'create-api-key'));
  const [user] = await query<{ user_id: string }>(orm.em.fork(), 'select user_id from users where is_root_user');
  expect((await identifyApiKey(orm.em.fork(), made.apiKey))?.userId).toBe(user!.user_id);

  await run(database!, 'ops/operator/admin.ts', 'create-account', '--email', 'second@example.com');
  await expect(run(database!, 'ops/operator/admin.ts', 'create-api-key')).rejects.toMatchObject({
    stderr: expect.stringContaining('there are several accounts'),
  });
}, 120_000);

test('a caller that does not show the output gets the first key with the account', async () => {
  const made = await migrate(databases[1]!, '--print-api-key');
  expect(made).toEqual({ created: true, apiKey: expect.stringMatching(/^spk_/), email: 'root@example.com' });
});
