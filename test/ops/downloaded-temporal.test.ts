import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { cacheDir, temporalDevServer, temporalPrograms } from '../../ops/setup/toolchain/locations.mjs';
import { RunningPlatform } from '../support/running-platform.ts';

/** A platform on a machine whose Temporal was downloaded: its cache has only the CLI, and this machine's images. */
let folder: string;
let env: NodeJS.ProcessEnv;
let platform: RunningPlatform;

beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'downloaded-temporal-'));
  for (const name of ['images', 'runtime', 'seccomp', 'node-compile']) {
    fs.symlinkSync(path.join(cacheDir(), name), path.join(folder, name));
  }
  env = { PLATFORM_CACHE_DIR: folder };
  const { cli } = temporalDevServer(env);
  fs.mkdirSync(path.dirname(cli), { recursive: true });
  fs.symlinkSync(temporalPrograms().cli, cli);
  platform = new RunningPlatform({ ...env, PLATFORM_WARM_POOL_SIZE: '0', PLATFORM_IMAGES_AHEAD: 'none' });
});

afterAll(async () => {
  await platform.stop();
  expect(await platform.hostRemains()).toEqual([]);
  platform.removeData();
  fs.rmSync(folder, { recursive: true, force: true });
}, 120_000);

test('a data folder goes on with the Temporal with which it began, also after the server was built', async () => {
  await platform.start();
  const { sandbox_id } = await platform.client().createSandbox();
  await platform.stop();
  expect(fs.existsSync(path.join(platform.dataDir, 'temporal/temporal.sqlite'))).toBe(true);

  fs.symlinkSync(temporalPrograms().dir, temporalPrograms(env).dir);
  await platform.start();
  const paused = await platform.client().request('POST', `/v1/sandboxes/${sandbox_id}/pause`);
  expect(paused.status).toBe(200);
  await platform.client().deleteSandbox(sandbox_id);
  await platform.stop();
  expect(fs.existsSync(path.join(platform.dataDir, 'temporal/embedded.yaml'))).toBe(false);
}, 300_000);

test('a data folder of the built server is not started without that server', async () => {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'built-temporal-'));
  fs.mkdirSync(path.join(dataDir, 'temporal'));
  fs.writeFileSync(path.join(dataDir, 'temporal/embedded.yaml'), '');
  fs.rmSync(temporalPrograms(env).dir, { force: true });
  const other = new RunningPlatform(env, dataDir);
  const refused = await other.start().catch((error: Error) => error.message);
  expect(refused).toMatch(/need Temporal's server, which is not built: PLATFORM_TEMPORAL_BUILD=1 npm start\n/);
  expect(refused).not.toMatch(/^ +at /m);
  other.removeData();
}, 60_000);

test('a wrong CA for sandboxes is refused before anything starts, in one line', async () => {
  const other = new RunningPlatform({ ...env, PLATFORM_SANDBOX_CA_FILE: import.meta.filename });
  const refused = await other.start().catch((error: Error) => error.message);
  expect(refused).toMatch(/^PLATFORM_SANDBOX_CA_FILE: \/.* contains no certificate in PEM\n?$/m);
  expect(refused).not.toMatch(/^ +at /m);
  other.removeData();
}, 60_000);
