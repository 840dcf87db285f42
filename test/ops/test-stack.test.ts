import { Connection } from '@temporalio/client';
import { Client } from 'pg';
import { searchAttributes } from '../../platform/temporal/search-attributes.ts';
import {
  registryAddress,
  temporalAddress,
  testDatabase,
  testNamespace,
  timeSkippingEnvironment,
} from '../support/stack.ts';

async function listTables(url: string): Promise<string[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const found = await client.query(`select tablename from pg_tables where schemaname = 'public'`);
    return found.rows.map((row) => row.tablename);
  } finally {
    await client.end();
  }
}

test('two test databases are migrated and apart from each other', async () => {
  const [one, other] = await Promise.all([testDatabase(), testDatabase()]);
  const client = new Client({ connectionString: one.url });
  await client.connect();
  await client.query('create table only_here ()');
  await client.end();
  expect(await listTables(one.url)).toEqual(expect.arrayContaining(['only_here', 'platform_migrations']));
  expect(await listTables(other.url)).toContain('platform_migrations');
  expect(await listTables(other.url)).not.toContain('only_here');
  await Promise.all([one.drop(), other.drop()]);
  await expect(listTables(one.url)).rejects.toThrow('does not exist');
});

test('a test namespace is known to Temporal with the search attributes of the platform', async () => {
  const { address, namespace } = await testNamespace();
  expect(address).toBe(await temporalAddress());
  const connection = await Connection.connect({ address });
  try {
    const found = await connection.operatorService.listSearchAttributes({ namespace });
    expect(Object.keys(found.customAttributes!).sort()).toEqual([
      'AccountId',
      'HostId',
      'ProjectId',
      'Region',
      'SandboxStatus',
      'TemplateId',
      'UserId',
    ]);
  } finally {
    await connection.close();
  }
});

test('the registry answers on loopback', async () => {
  const reply = await fetch(`http://${await registryAddress()}/v2/_catalog`);
  expect(await reply.json()).toEqual({ repositories: expect.any(Array) });
});

test('the time-skipping environment runs a workflow that sleeps for a day at once', async () => {
  const environment = await timeSkippingEnvironment();
  try {
    const before = await environment.currentTimeMs();
    await environment.sleep('1 day');
    expect((await environment.currentTimeMs()) - before).toBeGreaterThanOrEqual(24 * 3600 * 1000);
    const handle = await environment.client.workflow.start('nobodyRunsThis', {
      workflowId: 'found-by-attribute',
      taskQueue: 'none',
      typedSearchAttributes: [{ key: searchAttributes.sandboxStatus, value: 'running' }],
    });
    const described = await handle.describe();
    expect(described.typedSearchAttributes.get(searchAttributes.sandboxStatus)).toBe('running');
  } finally {
    await environment.teardown();
  }
});
