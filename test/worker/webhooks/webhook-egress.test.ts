import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Host } from '../../../db/hosts/host.entity.ts';
import { recordSandboxNetwork } from '../../../db/hosts/hosts.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { issueLeaf, openLocalCa } from '../../../gateway/tls/local-ca.ts';
import { loadSettings } from '../../../platform/config/settings.ts';
import { createWebhookSender } from '../../../worker/webhooks/egress.ts';
import { Canary } from '../../support/hostile-storage.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { WebhookReceiver } from '../../support/webhook-receiver.ts';

let database: TestDatabase;
let orm: Orm;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 2);
});
afterAll(async () => {
  await orm?.close();
  await database?.drop();
});

const common = () => ({
  PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
  DATABASE_URL: database.url,
  PLATFORM_OUTBOUND_RANGES: '0.0.0.0/0,::/0',
});

test('webhooks reach opened ranges, but no service of the settings and no sandbox of any host', async () => {
  const [service, sandbox, receiver] = await Promise.all([
    Canary.start('127.0.0.1'),
    Canary.start('127.7.0.9'),
    WebhookReceiver.start(),
  ]);
  for (const [hostId, network] of [
    ['host-1', '10.99.0.0/20'],
    ['host-2', '127.7.0.0/20'],
  ] as const) {
    await orm.em.fork().insert(Host, { hostId, region: 'local', regionName: 'Local', leaseExpiresAt: new Date() });
    await recordSandboxNetwork(orm.em, hostId, network);
  }
  const settings = loadSettings({
    ...common(),
    PLATFORM_INTERNAL_SERVICES: `127.0.0.1:${service.port}`,
  });
  const sender = createWebhookSender(settings, orm);
  const sendForError = async (url: string) =>
    (await sender.send({ url, headers: { 'webhook-id': 'evt-1' }, body: '{}', timeoutSeconds: 60 })).error;
  const refused = 'The endpoint could not be reached';
  try {
    expect(await sendForError(receiver.url)).toBeNull();
    expect(await sendForError(`http://127.0.0.1:${service.port}/`)).toBe(refused);
    expect(await sendForError(`http://127.7.0.9:${sandbox.port}/`)).toBe(refused);
    expect([service.connections, sandbox.connections]).toEqual([0, 0]);
  } finally {
    await sender.close();
    for (const each of [service, sandbox, receiver]) await each.stop();
  }
});

test("certificates of the operator's CA file are accepted in addition to the usual ones", async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'webhook-ca-'));
  const ca = await openLocalCa(dir);
  const { key, cert } = await issueLeaf(ca, 'localhost');
  const caFile = path.join(dir, 'operator.pem');
  fs.writeFileSync(caFile, ca.certificatePem);
  const server = https.createServer({ key, cert }, (_request, response) => void response.end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://localhost:${(server.address() as AddressInfo).port}/`;
  const outcomes: (string | null)[] = [];
  for (const more of [{ PLATFORM_WEBHOOK_CA_FILE: caFile }, {}]) {
    const sender = createWebhookSender(loadSettings({ ...common(), ...more }), orm);
    outcomes.push((await sender.send({ url, headers: {}, body: '{}', timeoutSeconds: 60 })).error);
    await sender.close();
  }
  expect(outcomes).toEqual([null, expect.stringMatching(/^The endpoint's TLS is not accepted/)]);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  fs.rmSync(dir, { recursive: true });
});
