import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RunningPlatform } from '../../support/running-platform.ts';
import { TestCa } from '../../support/test-ca.ts';

/** A platform with a CA for its sandboxes. `test/runtime/sandbox-ca.test.ts` has what trusts it. */
let folder: string;
let certificate: string;
let platform: RunningPlatform;

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-ca-e2e-'));
  certificate = (await TestCa.create()).pair.certificate.trim();
  fs.writeFileSync(path.join(folder, 'ca.pem'), certificate);
  platform = await RunningPlatform.onSharedServers({ PLATFORM_SANDBOX_CA_FILE: path.join(folder, 'ca.pem') });
  await platform.start();
}, 180_000);

afterAll(async () => {
  await platform.stop();
  expect(await platform.hostRemains()).toEqual([]);
  platform.removeData();
  fs.rmSync(folder, { recursive: true, force: true });
}, 120_000);

test('a command in a sandbox finds the CA of the setting in its variables, unless the sandbox sets them', async () => {
  const api = platform.client();
  const run = async (sandboxId: string) => {
    const command = 'cat "$NODE_EXTRA_CA_CERTS"; echo "$GIT_SSL_CAINFO"';
    const reply = await api.request('POST', `/v1/sandboxes/${sandboxId}/exec`, { command, wait: true });
    return (reply.body as unknown as { stdout: string }).stdout;
  };
  const plain = await api.createSandbox();
  expect(await run(plain.sandbox_id)).toBe(`${certificate}\n/etc/ssl/certs/ca-certificates.crt\n`);
  const own = await api.createSandbox({ env_vars: { GIT_SSL_CAINFO: '/own' } });
  expect(await run(own.sandbox_id)).toBe(`${certificate}\n/own\n`);
  await Promise.all([plain, own].map(({ sandbox_id }) => api.deleteSandbox(sandbox_id)));
}, 120_000);
