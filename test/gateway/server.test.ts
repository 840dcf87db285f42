import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { type TestDatabase, testDatabase } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { type Reply, send } from './client.ts';
import { GatewayProcess } from './gateway-process.ts';
import { formatHost } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const secretKey = Buffer.alloc(32, 7).toString('base64');
const id = 'sbx-real';
let database: TestDatabase;
let client: pg.Client;
let gateway: GatewayProcess;
let agent: UpstreamServer;
let service: UpstreamServer;

beforeAll(async () => {
  database = await testDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  // A sandbox row without its user and account.
  await client.query(`alter table sandboxes drop constraint sandboxes_account_id_fkey, drop constraint sandboxes_owner_user_id_fkey,
    drop constraint sandboxes_project_id_fkey, drop constraint sandboxes_host_id_fkey`);
  agent = await startHttpUpstream((_request, response) => response.end('agent'));
  service = await startHttpUpstream((_request, response) => response.end('service'));
  gateway = await GatewayProcess.start(database.url, secretKey);
});

afterAll(async () => {
  await gateway.stop();
  gateway.removeData();
  await client.end();
  await Promise.all([agent.stop(), service.stop(), database.drop()]);
});

function call(requestedPort?: number, headers: Record<string, string> = {}): Promise<Reply> {
  return send({ port: gateway.port, host: formatHost(id, requestedPort), headers });
}

test('a sandbox is unknown before its row exists, and served exactly while it runs', async () => {
  expect((await call()).json.code).toBe('sandbox_not_found');
  const ports = [{ port: 80, servicePort: service.port, protocol: 'TCP', name: 'web', isProtected: true }];
  await client.query(
    `insert into sandboxes (sandbox_id, account_id, owner_user_id, project_id, name, template_id, template_name, template_source,
       image, cpu_count, memory_mb, storage_gb, timeout_seconds, status, region, host_id, agent_address, agent_port, custom_ports)
     values ($1, 'acc-a', 'usr-a', 'prj-a', 'n', 'tpl-a', 'base', 'platform_family', 'builtin:base', 1, 512, 1, 60, 'running',
       'local', 'host-a', $2, $3, $4)`,
    [id, agent.address, agent.port, JSON.stringify(ports)],
  );
  await until(async () => (await call()).text === 'agent');
  await client.query("update sandboxes set status = 'paused' where sandbox_id = $1", [id]);
  await until(async () => {
    const reply = await call();
    // The gateway may not have learned of the pause yet.
    return reply.text !== 'agent' && reply.json.code === 'sandbox_not_running';
  });
  await client.query("update sandboxes set status = 'running' where sandbox_id = $1", [id]);
  await until(async () => (await call()).text === 'agent');
});

test('one that has ended or was deleted answers 502 for as long as its row is there', async () => {
  await client.query("update sandboxes set status = 'terminated', agent_address = null where sandbox_id = $1", [id]);
  await until(async () => (await call()).status === 502);
  await client.query('update sandboxes set deleted_at = now() where sandbox_id = $1', [id]);
  expect([(await call()).status, (await call()).json.code]).toEqual([502, 'sandbox_not_running']);
  // A deleted row leads nowhere, regardless of its status.
  await client.query("update sandboxes set status = 'running', agent_address = $2 where sandbox_id = $1", [
    id,
    agent.address,
  ]);
  expect((await call()).status).toBe(502);
  await client.query('update sandboxes set deleted_at = null where sandbox_id = $1', [id]);
  await until(async () => (await call()).text === 'agent');
});

test('a protected port asks for the token that the platform derives', async () => {
  expect((await call(80)).status).toBe(401);
  const token = deriveSecrets({ PLATFORM_SECRET_KEY: secretKey }).agentToken(id, 1);
  expect((await call(80, { 'x-access-token': token })).text).toBe('service');
});

test('while the owner is disabled, private ports are closed', async () => {
  await client.query(
    `insert into accounts (account_id, email, display_name, plan_name) values ('acc-a', 'a@b', 'A', 'hobby')`,
  );
  await client.query(
    `insert into users (user_id, account_id, email, username, display_name) values ('usr-a', 'acc-a', 'a@b', 'a', 'A')`,
  );
  const setStatus = (status: string) => client.query('update users set status = $1', [status]);
  expect((await call()).text).toBe('agent');
  await setStatus('disabled');
  await until(async () => (await call()).status === 403);
  await setStatus('enabled');
  await until(async () => (await call()).text === 'agent');
});

test('at SIGTERM it stops gracefully, and the accesses are recorded', async () => {
  expect(existsSync(path.join(gateway.dataDir, 'ca/ca.pem'))).toBe(true);
  expect(await gateway.stop()).toBe(0);
  const { rows } = await client.query('select last_accessed_at from sandboxes where sandbox_id = $1', [id]);
  expect(Math.abs(rows[0].last_accessed_at.getTime() - Date.now())).toBeLessThan(120_000);
  expect(rows[0].last_accessed_at.getSeconds()).toBe(0);
});
