import { readdirSync, readFileSync } from 'node:fs';
import { jest } from '@jest/globals';
import { temporal } from '@temporalio/proto';
import { startApi, type TestApi } from '../api/test-api.ts';
import { type ControlPlane, startControlPlane, testSecretKey } from '../support/control-plane.ts';
import { MemoryDriver } from '../support/memory-driver.ts';

jest.setTimeout(90_000);

/** After lives of keys and sandboxes: whatever was secret in them is nowhere but with whom it belongs to. */
let plane: ControlPlane;
let api: TestApi;
/** What it is, and what it looks like. */
const secrets: Record<string, string> = {};
const sandboxIds: string[] = [];
const variable = `value-of-a-variable-${process.pid}`;

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro' });
  api = await startApi({ on: plane });
  secrets['the key of the platform'] = testSecretKey;
  secrets['the codec server’s token'] = plane.secrets.codecAccessToken;
  secrets['a key for payloads'] = [...plane.secrets.codecKeys.values()][0]!.toString('base64');
  secrets["the root's API key"] = api.root.key;
  const key = await api.send(
    api.root,
    'POST',
    '/v1/api-keys',
    { name: 'told once' },
    { headers: { 'idempotency-key': 'scan' } },
  );
  secrets['an API key'] = key.body.data.api_key;
  await api.client.send('GET', '/v1/users/me', { key: `${secrets['an API key']}x` });
  await api.client.send('GET', `/v1/sandboxes?search=${secrets['an API key']}`, { key: secrets['an API key']! });
  const id = await sandbox();
  await command(id, 'pause');
  await command(id, 'resume');
  await command(id, 'terminate');
  await sandbox();
  await api.send(api.root, 'DELETE', `/v1/api-keys/${key.body.data.key_id}`);
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});

async function sandbox(): Promise<string> {
  const size = { cpu_count: 1, memory_mb: 128, storage_gb: 1 };
  const made = await api.send(api.root, 'POST', '/v1/sandboxes', { ...size, env_vars: { TOKEN: variable } });
  expect(made.status).toBe(201);
  const id: string = made.body.data.sandbox_id;
  sandboxIds.push(id);
  secrets[`the agent's token of ${id}`] = plane.secrets.agentToken(id);
  secrets[`the platform's token of ${id}`] = plane.secrets.platformToken(id);
  return id;
}

const command = async (id: string, name: string) =>
  expect((await api.send(api.root, 'POST', `/v1/sandboxes/${id}/${name}`)).status).toBeLessThan(300);

/** Which of the secrets a text holds, as they are or in base64. */
function found(text: string, among: Record<string, string> = secrets): string[] {
  return Object.entries(among)
    .filter(
      ([, secret]) =>
        text.includes(secret) ||
        text.includes(
          Buffer.from(secret)
            .toString('base64')
            .replace(/.{0,2}=*$/, ''),
        ),
    )
    .map(([what]) => what);
}

test('the scan finds what is there', () => {
  expect(found(`{"key":"${secrets['an API key']}"}`)).toEqual(['an API key']);
  expect(found(Buffer.from(secrets['an API key']!).toString('base64'))).toEqual(['an API key']);
});

test('no secret is in what the API logs', () => {
  expect(api.log.length).toBeGreaterThan(5);
  expect(found(api.log.join('\n'), { ...secrets, 'a variable of a sandbox': variable })).toEqual([]);
});

test('no secret rests in the database', async () => {
  const em = plane.orm.em.fork();
  const tables: { name: string }[] = await em.execute(
    "select table_name as name from information_schema.tables where table_schema = 'public'",
  );
  expect(tables.length).toBeGreaterThan(8);
  for (const { name } of tables) {
    const rows: { row: string }[] = await em.execute(`select row_to_json(t)::text as row from "${name}" t`);
    expect([name, found(rows.map(({ row }) => row).join('\n'))]).toEqual([name, []]);
  }
});

test('no secret is readable in a workflow history, nor a platform key in what operators decode', async () => {
  for (const id of sandboxIds) {
    const { history } = await plane.client.workflowService.getWorkflowExecutionHistory({
      namespace: plane.client.options.namespace,
      execution: { workflowId: id },
    });
    expect(history!.events!.length).toBeGreaterThan(5);
    const bytes = Buffer.from(temporal.api.history.v1.History.encode(history!).finish()).toString('latin1');
    expect(found(bytes, { ...secrets, 'a variable of a sandbox': variable })).toEqual([]);
  }
});

test('no secret is in an argument of any process of this machine', () => {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let words = '';
    try {
      words = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    } catch (error) {
      // It ended while we looked.
      if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
    expect(found(words)).toEqual([]);
  }
});

test('no reply to somebody else holds one, and the first reply repeated tells no key again', async () => {
  const stranger = await api.addAccount();
  const mine = { ...secrets, 'a variable of a sandbox': variable };
  const paths = [
    '/v1/sandboxes',
    '/v1/api-keys',
    '/v1/templates',
    '/v1/projects',
    '/v1/users/me',
    ...sandboxIds.map((id) => `/v1/sandboxes/${id}`),
  ];
  for (const path of paths) {
    expect([path, found((await api.send(stranger, 'GET', path)).text, mine)]).toEqual([path, []]);
  }
  const again = await api.send(
    api.root,
    'POST',
    '/v1/api-keys',
    { name: 'told once' },
    { headers: { 'idempotency-key': 'scan' } },
  );
  expect(again.status).toBe(201);
  expect(found(again.text)).toEqual([]);
  for (const path of ['/v1/api-keys', '/v1/users/me', '/metrics', '/openapi.json']) {
    expect([path, found((await api.send(api.root, 'GET', path)).text)]).toEqual([path, []]);
  }
});
