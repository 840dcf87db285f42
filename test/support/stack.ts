import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { Client } from 'pg';
import { timeSkippingTestServer } from '../../ops/setup/toolchain/locations.mjs';
import { addSearchAttributes } from '../../platform/temporal/namespace.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

/** A database that only this test file uses. */
export interface TestDatabase {
  /** For `DATABASE_URL` or `createOrm`, through a Unix socket; its user may do everything. */
  url: string;
  /** The same over TCP, for tests with a relay in between. */
  tcpUrl: string;
  /**
   * Removes it, even if programs are connected. Remaining databases are removed with the whole cluster at the end of
   * the run.
   */
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

/** The data folder of the run's platform. Tests use `RunningPlatform.shared`. */
export async function sharedPlatformFolder(): Promise<string> {
  return (await ask<{ dataDir: string }>('/platform')).dataDir;
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

/** Its public function for connecting to a running server does not skip time. */
const testing = TestWorkflowEnvironment as unknown as {
  create(options: {
    server: { type: 'existing' };
    address: string;
    supportsTimeSkipping: boolean;
  }): Promise<TestWorkflowEnvironment>;
};

/**
 * The SDK waits five seconds for the server, which is too short for its Java on a busy machine, so it is started here.
 */
async function startedEnvironment(): Promise<TestWorkflowEnvironment> {
  const port = await freePort();
  const server = spawn(timeSkippingTestServer().program, [String(port)], { stdio: 'ignore' });
  const ended = once(server, 'exit');
  const stop = async () => {
    server.kill('SIGKILL');
    await ended;
  };
  try {
    await until(() => isListening(port), 90_000);
    const environment = await testing.create({
      server: { type: 'existing' },
      address: `127.0.0.1:${port}`,
      supportsTimeSkipping: true,
    });
    const close = environment.teardown.bind(environment);
    environment.teardown = () => close().finally(stop);
    return environment;
  } catch (error) {
    await stop();
    throw error;
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false)).once('connect', () => resolve(true));
    socket.once('connect', () => socket.destroy());
  });
}

async function newDatabase(path: string): Promise<TestDatabase> {
  const { url } = await ask<{ url: string }>(path);
  return {
    url,
    tcpUrl: Object.assign(new URL(url), { search: '' }).href,
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
