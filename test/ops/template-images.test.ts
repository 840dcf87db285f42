import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { cacheDir } from '../runtime/local-host.ts';
import { LoopbackRegistry } from '../support/loopback-registry.ts';

/** What an operator of a cluster runs on a machine that can make images. */
const root = path.resolve(import.meta.dirname, '../..');
let folder: string;
let registry: LoopbackRegistry;

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'template-images-'));
  registry = await LoopbackRegistry.start(folder);
});
afterAll(async () => {
  await registry.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

const run = async (words: string[], env: Record<string, string> = {}) => {
  const settings = { PATH: process.env.PATH!, PLATFORM_CACHE_DIR: cacheDir(), ...env };
  const command = promisify(execFile)(process.execPath, ['ops/operator/admin.ts', 'push-template-image', ...words], {
    cwd: root,
    env: settings,
  });
  const { stdout, stderr } = await command.catch((error) => error);
  return { stdout: stdout as string, stderr: stderr as string };
};
const there = () => ({ PLATFORM_REGISTRY: `${registry.address}/templates`, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' });

test('the image of base is in the registry, and the command prints the setting for a cluster', async () => {
  const first = JSON.parse((await run(['--template', 'base'], there())).stdout);
  const image = `${registry.address}/templates/platform-images/base@${/sha256:[0-9a-f]{64}$/.exec(first.image)![0]}`;
  expect(first).toEqual({ template: 'base', image, setting: `PLATFORM_BASE_IMAGE=${image}` });
  const origin = `http://${registry.address}/v2/templates/platform-images/base`;
  const asJson = async (url: string, init?: RequestInit) => JSON.parse(await (await fetch(url, init)).text());
  const accept = { headers: { accept: 'application/vnd.oci.image.manifest.v1+json' } };
  const manifest = await asJson(`${origin}/manifests/${image.split('@')[1]}`, accept);
  expect(manifest.layers).toEqual([
    expect.objectContaining({ mediaType: 'application/vnd.oci.image.layer.v1.tar+zstd' }),
  ]);
  const { config } = await asJson(`${origin}/blobs/${manifest.config.digest}`);
  expect(config.Env).toEqual(['LANG=C.UTF-8']);
  // What is there is not packed again.
  const again = await run(['--template', 'base'], there());
  expect(JSON.parse(again.stdout)).toEqual(first);
  expect(again.stderr).not.toContain('packing');
}, 180_000);

test('mistakes are said in one line', async () => {
  expect((await run(['--template', 'none'], there())).stderr).toMatch(
    /^There is no template none whose image is made; there are base, /,
  );
  expect((await run(['--template', 'base'])).stderr).toMatch(/^PLATFORM_REGISTRY is not set\n/);
}, 180_000);
