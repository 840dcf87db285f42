import { execFile } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { workflowError } from '../../../api/plugins/workflow-errors.ts';
import { loadSettings } from '../../../platform/config/settings.ts';
import { clientConnectionOptions } from '../../../platform/temporal/client-connection-options.ts';
import { temporalConnectionOptions } from '../../../platform/temporal/connection-options.ts';
import { temporalAddress } from '../../support/stack.ts';
import { TcpRelay } from '../../support/tcp-relay.ts';
import { TestCa } from '../../support/test-ca.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'temporal-connection-'));
const closed: (() => void)[] = [];
let settings: Record<string, string>;

/** Temporal behind TLS with client certificates, as with Temporal Cloud and self-hosted servers. */
beforeAll(async () => {
  const ca = await TestCa.create();
  const serving = await ca.issue({ name: 'temporal', answersFor: [{ type: 'dns', value: 'temporal.test' }] });
  const client = await ca.issue({ name: 'platform' });
  const files = { ca: ca.pair.certificate, certificate: client.certificate, key: client.key };
  for (const [name, pem] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), pem);
  const temporal = new URL(`tcp://${await temporalAddress()}`);
  const trust = { key: serving.key, cert: serving.certificate, ca: ca.pair.certificate, ALPNProtocols: ['h2'] };
  const front = tls.createServer({ ...trust, requestCert: true, rejectUnauthorized: true }, (socket) => {
    const behind = net.connect(Number(temporal.port), temporal.hostname);
    socket.pipe(behind).pipe(socket);
    for (const end of [socket, behind]) {
      end.on('error', () => {
        socket.destroy();
        behind.destroy();
      });
    }
    closed.push(() => socket.destroy());
  });
  settings = {
    PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
    DATABASE_URL: 'postgres://unused',
    TEMPORAL_ADDRESS: await listen(front),
    TEMPORAL_TLS_CA_FILE: path.join(folder, 'ca'),
    TEMPORAL_TLS_CERT_FILE: path.join(folder, 'certificate'),
    TEMPORAL_TLS_KEY_FILE: path.join(folder, 'key'),
    TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
  };
});

afterAll(() => {
  for (const close of closed) close();
  fs.rmSync(folder, { recursive: true });
});

async function listen(server: net.Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closed.push(() => server.close());
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

test('clients and workers reach a Temporal that requires a certificate', async () => {
  const options = temporalConnectionOptions(loadSettings(settings));
  const connection = await Connection.connect(options);
  const { serverVersion } = await connection.workflowService.getSystemInfo({});
  expect(serverVersion).toMatch(/^1\./);
  await expect(new Client({ connection }).workflow.getHandle('no-such-workflow').describe()).rejects.toThrow(
    /not found/i,
  );
  await connection.close();
  const ofWorkers = await NativeConnection.connect(options);
  expect((await ofWorkers.workflowService.getSystemInfo({})).serverVersion).toBe(serverVersion);
  await ofWorkers.close();
});

test.each([
  ['no certificate of its own', { TEMPORAL_TLS_CERT_FILE: '', TEMPORAL_TLS_KEY_FILE: '' }],
  ['another name', { TEMPORAL_TLS_SERVER_NAME: 'other.test' }],
  ['no trust in the CA', { TEMPORAL_TLS_CA_FILE: '' }],
])('with %s it is refused', async (_how, changed) => {
  const options = temporalConnectionOptions(loadSettings({ ...settings, ...changed }));
  await expect(Connection.connect({ ...options, connectTimeout: '3 seconds' })).rejects.toThrow();
});

/** Runs `npm run temporal` as for processes that were started separately. */
function runTemporalCli(env: Record<string, string>, ...args: string[]): Promise<{ code: number; stdout: string }> {
  const words = ['ops/local-stack/temporal-cli.ts', ...args];
  const options = { cwd: root, env: { ...process.env, NODE_OPTIONS: '', ...env }, timeout: 60_000 };
  return new Promise((resolve) => {
    execFile(process.execPath, words, options, (error, stdout) => resolve({ code: Number(error?.code ?? 0), stdout }));
  });
}

test("`npm run temporal` reaches it with the platform's certificate, and not without", async () => {
  const health = ['operator', 'cluster', 'health'];
  expect(await runTemporalCli(settings, ...health)).toEqual({ code: 0, stdout: 'SERVING\n' });
  const without = { ...settings, TEMPORAL_TLS_CERT_FILE: '', TEMPORAL_TLS_KEY_FILE: '' };
  expect(await runTemporalCli(without, ...health, '--command-timeout', '5s')).toMatchObject({ code: 1, stdout: '' });
});

/** A server in place of Temporal Cloud, which refuses each request and returns its authorization. */
async function startCloud(): Promise<{ settings: Record<string, string>; authorization: Promise<string | undefined> }> {
  const heard = Promise.withResolvers<string | undefined>();
  const ca = await TestCa.create();
  fs.writeFileSync(path.join(folder, 'cloud-ca'), ca.pair.certificate);
  const serving = await ca.issue({ name: 'cloud', answersFor: [{ type: 'ip', value: '127.0.0.1' }] });
  const cloud = http2.createSecureServer({ key: serving.key, cert: serving.certificate });
  cloud.on('session', (session) => closed.push(() => session.destroy()));
  cloud.on('stream', (stream, headers) => {
    heard.resolve(headers.authorization);
    // The client may disconnect before the end.
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' }, { endStream: true });
  });
  return {
    settings: {
      PLATFORM_SECRET_KEY: settings.PLATFORM_SECRET_KEY!,
      DATABASE_URL: settings.DATABASE_URL!,
      TEMPORAL_ADDRESS: await listen(cloud),
      TEMPORAL_TLS_CA_FILE: path.join(folder, 'cloud-ca'),
      TEMPORAL_API_KEY: 'key-of-a-test',
    },
    authorization: heard.promise,
  };
}

test('`npm run temporal` sends the API key', async () => {
  const cloud = await startCloud();
  expect(await runTemporalCli(cloud.settings, 'operator', 'cluster', 'health')).toMatchObject({ code: 1 });
  expect(await cloud.authorization).toBe('Bearer key-of-a-test');
});

test('each request has the API key, and only over TLS', async () => {
  const cloud = await startCloud();
  const options = temporalConnectionOptions(loadSettings(cloud.settings));
  await expect(Connection.connect({ ...options, connectTimeout: '60 seconds' })).rejects.toThrow();
  expect(await cloud.authorization).toBe('Bearer key-of-a-test');
  // Also without any other setting.
  expect(
    temporalConnectionOptions({ TEMPORAL_ADDRESS: 'a:1', TEMPORAL_TLS: false, TEMPORAL_API_KEY: 'k' }).tls,
  ).toEqual({});
});

test('only a call that a healthy server may answer late has a long deadline', async () => {
  const deadlines = new Map<string, number>();
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    deadlines.set(headers[':path']!.split('/').at(-1)!, Number.parseInt(String(headers['grpc-timeout']), 10));
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' }, { endStream: true });
  });
  server.on('session', (session) => closed.push(() => session.destroy()));
  const address = await listen(server);
  const connection = Connection.lazy(clientConnectionOptions({ TEMPORAL_ADDRESS: address, TEMPORAL_TLS: false }));
  try {
    const { workflowService: service } = connection;
    const calls = [
      service.describeWorkerDeployment({}),
      service.setWorkerDeploymentCurrentVersion({}),
      service.updateWorkflowExecution({}),
      service.signalWorkflowExecution({}),
    ];
    for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected');
  } finally {
    await connection.close();
  }
  const long = [...deadlines].filter(([, ms]) => ms > 10_000).map(([method]) => method);
  expect(deadlines.size).toBe(4);
  expect(long.sort()).toEqual(['SetWorkerDeploymentCurrentVersion', 'UpdateWorkflowExecution']);
}, 60_000);

test('without settings the connection is plain; a certificate without its key is refused at the start', () => {
  const plain = { PLATFORM_SECRET_KEY: settings.PLATFORM_SECRET_KEY, DATABASE_URL: settings.DATABASE_URL };
  expect(temporalConnectionOptions(loadSettings(plain))).toEqual({ address: '127.0.0.1:7233', tls: false });
  expect(() => loadSettings({ ...plain, TEMPORAL_TLS_CERT_FILE: '/some/file' })).toThrow('TEMPORAL_TLS_KEY_FILE');
});

test('a call of a server that hangs ends at its deadline', async () => {
  const relay = await TcpRelay.open(await temporalAddress(), '127.0.0.1');
  const connection = Connection.lazy(clientConnectionOptions({ TEMPORAL_ADDRESS: relay.address, TEMPORAL_TLS: false }));
  try {
    await connection.workflowService.getSystemInfo({});
    relay.hang();
    const { workflow } = new Client({ connection });
    const calls = [
      connection.workflowService.getSystemInfo({}),
      workflow.getHandle('none').signal('none'),
      workflow.getHandle('none').executeUpdate('none'),
      workflow.getHandle('none').result(),
    ];
    for (const call of await Promise.allSettled(calls)) {
      expect(call.status).toBe('rejected');
      const { reason } = call as PromiseRejectedResult;
      expect(workflowError(reason)?.code).toBe('temporarily_unavailable');
    }
  } finally {
    relay.close();
    await connection.close();
  }
}, 60_000);
