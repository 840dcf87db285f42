import http from 'node:http';
import { text } from 'node:stream/consumers';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { Client } from 'pg';
import { timeSkippingTestServer } from '../../ops/setup/toolchain/locations.mjs';
import { addSearchAttributes } from '../../temporal/namespace.ts';

/** A database of this test file's own. */
export interface TestDatabase {
  /** For `DATABASE_URL` or `createOrm`; its user may do everything. */
  url: string;
  /** Removes it, also while programs are connected. What is not dropped goes with the whole cluster when the run ends. */
  drop(): Promise<void>;
}

/** A fresh copy of the migrated, otherwise empty database: ~50 ms, the first of a run ~2 s. */
export function testDatabase(): Promise<TestDatabase> {
  return newDatabase('/database');
}

/** Address of the run's Temporal, for use with its namespace `default`: queue names must then be the test's own. */
export async function temporalAddress(): Promise<string> {
  return (await ask<{ address: string }>('/temporal')).address;
}

/** A fresh namespace with the platform's search attributes, ready to be used: ~0.5 s. */
export function testNamespace(): Promise<{ address: string; namespace: string }> {
  return ask('/namespace');
}

/**
 * The namespace in which the server suggests to continue as new after 100 events. For one test file alone: workers of
 * two would share its task queues.
 */
export function shortHistoryNamespace(): Promise<{ address: string; namespace: string }> {
  return ask('/namespace/short-history');
}

/** `127.0.0.1:<port>` of the run's registry, plain HTTP. Shared: repository names must be the test's own. */
export async function registryAddress(): Promise<string> {
  return (await ask<{ address: string }>('/registry')).address;
}

/**
 * Temporal's time-skipping test server, one for each call, with the platform's search attributes: where a test would
 * wait for hours. It knows updates and update-with-start, but no schedules. Call its `teardown()` at the end.
 */
export async function timeSkippingEnvironment(): Promise<TestWorkflowEnvironment> {
  const environment = await startedEnvironment();
  await addSearchAttributes(environment.connection, 'default');
  return environment;
}

/** The SDK gives the server five seconds; on a busy machine its Java needs more at first, and then is in the cache. */
async function startedEnvironment(triesLeft = 6): Promise<TestWorkflowEnvironment> {
  try {
    return await TestWorkflowEnvironment.createTimeSkipping({
      server: { executable: { type: 'existing-path', path: timeSkippingTestServer().program } },
    });
  } catch (error) {
    if (triesLeft === 0 || !String(error).includes('did not start within')) throw error;
    return startedEnvironment(triesLeft - 1);
  }
}

async function newDatabase(path: string): Promise<TestDatabase> {
  const { url } = await ask<{ url: string }>(path);
  return {
    url,
    async drop() {
      const admin = new URL(url);
      const name = admin.pathname.slice(1);
      admin.pathname = '/postgres';
      const client = new Client({ connectionString: admin.href });
      await client.connect();
      try {
        await client.query(`drop database if exists ${client.escapeIdentifier(name)} with (force)`);
      } finally {
        await client.end();
      }
    },
  };
}

async function ask<Answer>(path: string): Promise<Answer> {
  const socketPath = process.env.TEST_STACK_SOCKET;
  if (!socketPath) throw new Error('the test stack is not there: run the tests with `npm test -- <file>`');
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    http.get({ socketPath, path, agent: false }, resolve).once('error', reject);
  });
  const body = await text(response);
  if (response.statusCode !== 200) throw new Error(`the test stack could not give ${path}:\n${body}`);
  return JSON.parse(body);
}
