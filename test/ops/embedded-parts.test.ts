import fs from 'node:fs';
import path from 'node:path';
import { Connection } from '@temporalio/client';
import { Client } from 'pg';
import { databaseUrl } from '../../ops/local-stack/embedded/postgres.ts';
import { processStartedAt } from '../../ops/local-stack/embedded/process-record.ts';
import { derivePassword } from '../../ops/local-stack/supervisor/data-folder.ts';
import { until } from '../support/until.ts';
import { eventually, newDataDir, RunningPlatform } from './running-platform.ts';

interface Recorded {
  name: string;
  pid: number;
}

const dataDir = newDataDir();
let running: RunningPlatform | undefined;

const recorded = (): Recorded[] => JSON.parse(fs.readFileSync(path.join(dataDir, 'processes.json'), 'utf8'));
const isRunning = ({ pid }: Recorded) => processStartedAt(pid) !== undefined;

function start(): RunningPlatform {
  running = new RunningPlatform(dataDir, { DATABASE_URL: '', TEMPORAL_ADDRESS: '', PLATFORM_REGISTRY: '' });
  return running;
}

/** The URL of the database's owner, which the processes do not have. */
function ownerUrl(): string {
  const secretKey = fs.readFileSync(path.join(dataDir, 'secret-key'), 'utf8').trim();
  const url = new URL(running!.process('api').DATABASE_URL);
  return databaseUrl('platform', derivePassword(secretKey, 'postgres platform'), Number(url.port), 'platform');
}

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

afterAll(async () => {
  await running?.end('SIGTERM');
  fs.rmSync(dataDir, { recursive: true, force: true });
});

test('a first start brings up Postgres, Temporal with its Web UI, and a registry, and passes their addresses to the processes', async () => {
  const platform = start();
  const { env } = await platform.ready();
  const names = recorded().map(({ name }) => name);
  expect(names.sort()).toEqual(
    ['api', 'gateway', 'host', 'postgres', 'registry', 'temporal-server', 'temporal-web-ui', 'worker'].sort(),
  );
  const { DATABASE_URL, TEMPORAL_ADDRESS, DATABASE_OWNER_URL: notHere } = platform.process('api');
  expect(await query(DATABASE_URL, 'select current_user as name')).toEqual([{ name: 'platform_runtime' }]);
  expect(notHere).toBeUndefined();
  expect(await query(ownerUrl(), 'select current_user as name')).toEqual([{ name: 'platform' }]);
  expect(fs.readFileSync(path.join(dataDir, 'settings.json'), 'utf8')).not.toContain(new URL(ownerUrl()).password);
  expect(TEMPORAL_ADDRESS).toBe(env.TEMPORAL_ADDRESS);
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
  await connection.close();
  expect(Object.keys(customAttributes!)).toContain('SandboxStatus');
  const settings = (await (await fetch(`${env.TEMPORAL_UI_URL}/api/v1/settings`)).json()) as {
    Codec: { Endpoint: string };
  };
  expect(settings.Codec.Endpoint).toMatch(new RegExp(`^${env.PLATFORM_URL}/codec/[\\w-]{43}$`));
}, 180_000);

test('data of Postgres survives a SIGKILL of the supervisor and of Postgres, and all ports stay', async () => {
  const before = running!.process('api');
  await expect(query(before.DATABASE_URL, 'create table kept (answer int)')).rejects.toThrow('permission denied');
  await query(ownerUrl(), 'create table kept (answer int)');
  await query(ownerUrl(), 'insert into kept values (42)');
  const former = recorded();
  process.kill(former.find(({ name }) => name === 'postgres')!.pid, 'SIGKILL');
  await running!.end('SIGKILL');

  const platform = start();
  await platform.ready();
  expect(former.filter(isRunning)).toEqual([]);
  const after = platform.process('api');
  expect({ ...after, pid: 0 }).toEqual({ ...before, pid: 0 });
  expect(await query(ownerUrl(), 'select answer from kept')).toEqual([{ answer: 42 }]);
}, 180_000);

test('a Postgres that dies is restarted, and Temporal continues', async () => {
  const postgres = recorded().find(({ name }) => name === 'postgres')!;
  process.kill(postgres.pid, 'SIGKILL');
  await eventually(() => running!.errors.includes('postgres is ready again') || undefined);
  const { TEMPORAL_ADDRESS } = running!.process('api');
  expect(await query(ownerUrl(), 'select answer from kept')).toEqual([{ answer: 42 }]);
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  // Its first connections after the old ones ended may still fail.
  let names: unknown[] = [];
  await until(async () => {
    const found = await connection.workflowService.listNamespaces({}).catch(() => null);
    names = found?.namespaces.map(({ namespaceInfo }) => namespaceInfo?.name) ?? [];
    return found !== null;
  });
  await connection.close();
  expect(names).toContain('default');
});

test('secrets are in no command line, and files with them are private', async () => {
  const key = fs.readFileSync(path.join(dataDir, 'secret-key'), 'utf8').trim();
  const password = new URL(running!.process('api').DATABASE_URL).password;
  const commandLines = recorded().map(({ pid }) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
  expect(
    commandLines.filter((line) => line.includes(key) || line.includes(password) || line.includes('/codec/')),
  ).toEqual([]);
  for (const file of ['temporal/embedded.yaml', 'temporal-web-ui/embedded.yaml', 'platform.env', 'secret-key']) {
    expect(`${file} ${(fs.statSync(path.join(dataDir, file)).mode & 0o777).toString(8)}`).toBe(`${file} 600`);
  }
});
