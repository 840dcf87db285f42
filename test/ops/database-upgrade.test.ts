import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { createOrm } from '../../db/orm.ts';
import { startPostgres } from '../../ops/local-stack/embedded/postgres.ts';
import { type Addresses, settleAddresses } from '../../ops/local-stack/supervisor/addresses.ts';
import { type DataFolder, derivePassword, openDataFolder } from '../../ops/local-stack/supervisor/data-folder.ts';
import { embeddedParts } from '../../ops/local-stack/supervisor/embedded-parts.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { newDataDir } from './running-platform.ts';

/** The last migration of the releases whose processes used the role of the tables' owner. */
const lastOfOneRole = '20261202-audit-events';
const root = path.resolve(import.meta.dirname, '../..');
const dataDir = newDataDir();
let folder: DataFolder;
let addresses: Addresses;
let postgres: { stop(): Promise<void> } | undefined;

const home = () => ({ logDir: folder.logDir, record: folder.record, stopping: new AbortController().signal });
const password = (purpose: string) => derivePassword(folder.secretKey, purpose);

afterAll(async () => {
  await postgres?.stop();
  await folder?.release();
  fs.rmSync(dataDir, { recursive: true, force: true });
});

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** Makes the cluster of those releases: one role, which owns everything and which the processes use. */
async function makeFormerCluster(): Promise<void> {
  const former = await startPostgres({
    dir: path.join(dataDir, 'postgres'),
    home: home(),
    port: addresses.ports.PLATFORM_POSTGRES_PORT,
    password: password('postgres'),
  });
  const orm = await createOrm(await former.ensureOwnedDatabase('platform', password('postgres platform')), 1, null);
  try {
    await orm.migrator.up({ to: lastOfOneRole });
    await orm.em.fork().execute(`
      insert into accounts (account_id, email, display_name, plan_name, created_at, updated_at)
        values ('acc-former', 'former@example.com', 'Former', 'hobby', now(), now());
      insert into users (user_id, account_id, email, username, display_name, is_root_user, created_at, updated_at)
        values ('usr-former', 'acc-former', 'former@example.com', 'former', 'Former', true, now(), now());
      insert into audit_events (event_id, account_id, address, request_id, action)
        values ('aud-former', 'acc-former', 'a', 'r', 'former')`);
  } finally {
    await orm.close();
    await former.stop();
  }
}

/** Does what `npm start` does with Postgres before the processes start. */
async function upgrade(): Promise<string> {
  const parts = embeddedParts(folder, home(), addresses, {}, loadSettings(addresses.processEnv));
  postgres = await parts.postgres!();
  const env = { ...process.env, NODE_OPTIONS: '', ...addresses.migrationEnv };
  const { stdout } = await promisify(execFile)(process.execPath, ['db/migrate.ts'], { cwd: root, env });
  return stdout.trim().split('\n').at(-1)!;
}

test('a cluster without the runtime role gets it at the next start, and keeps its content', async () => {
  folder = await openDataFolder(dataDir);
  addresses = await settleAddresses(folder, { PLATFORM_PORTS_FROM: `${30_000 + (process.pid % 40) * 20}` });
  await makeFormerCluster();
  for (let start = 0; start < 2; start++) {
    expect(JSON.parse(await upgrade())).toEqual({ created: false });
    const { DATABASE_URL: url } = addresses.processEnv;
    const [user] = await query(url!, 'select current_user as role, user_id, email from users where is_root_user');
    expect(user).toEqual({ role: 'platform_runtime', user_id: 'usr-former', email: 'former@example.com' });
    const add =
      "insert into audit_events (event_id, address, request_id, action) values ('aud-new-' || $$N$$, 'a', 'r', 'x')";
    await query(url!, add.replace('N', `${start}`));
    for (const change of ["update audit_events set action = 'y'", 'delete from audit_events', 'drop table users']) {
      await expect(query(url!, change)).rejects.toThrow(/permission denied|must be owner/);
    }
    await query(url!, "update users set description = 'still changed' where user_id = 'usr-former'");
    const events = await query(url!, 'select event_id from audit_events order by created_at');
    expect(events.map(({ event_id: id }) => id)).toEqual(['aud-former', 'aud-new-0', 'aud-new-1'].slice(0, start + 2));
    await postgres!.stop();
    postgres = undefined;
  }
}, 120_000);
