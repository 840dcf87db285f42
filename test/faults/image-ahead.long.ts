import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { baseRecipeDigest } from '../../runtime/images/base-image.ts';
import { imageFolder } from '../../runtime/images/image-cache.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { FaultyPlatform } from './faulty-platform.ts';

/** A platform on a machine that only has the base image, as at the first start after set-up. */
let platform: FaultyPlatform;
let cache: string;

beforeAll(async () => {
  cache = fs.mkdtempSync(path.join(os.tmpdir(), 'image-ahead-'));
  for (const name of fs.readdirSync(cacheDir())) {
    if (name !== 'images') fs.symlinkSync(path.join(cacheDir(), name), path.join(cache, name));
  }
  const base = imageFolder(cache, baseRecipeDigest());
  fs.mkdirSync(path.dirname(base));
  fs.symlinkSync(imageFolder(cacheDir(), baseRecipeDigest()), base);
  platform = await FaultyPlatform.start({ PLATFORM_CACHE_DIR: cache });
}, 300_000);
afterAll(async () => {
  await platform?.stop();
  await platform?.removeData();
  fs.rmSync(cache, { recursive: true, force: true });
}, 300_000);

interface TemplateView {
  status: string;
  build_error_message: string | null;
}

async function template(): Promise<TemplateView> {
  const reply = await fetch(`${platform.settings.PLATFORM_URL}/v1/templates?name=code-interpreter`, {
    headers: { 'X-API-Key': platform.apiKey },
  });
  const body = (await reply.json()) as { data: { templates: TemplateView[] } };
  return body.data.templates[0]!;
}

async function create(fields: object) {
  const reply = await fetch(`${platform.settings.PLATFORM_URL}/v1/sandboxes`, {
    method: 'POST',
    headers: { 'X-API-Key': platform.apiKey, 'content-type': 'application/json' },
    body: JSON.stringify({ template: 'code-interpreter', ...fields }),
  });
  return (await reply.json()) as { message?: string; data: { sandbox_id: string; status: string } };
}

/** The programs of builds in this cache. */
const builders = () =>
  fs.readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(`${cache}/images/`);
    } catch {
      return false; // It ended in the meantime.
    }
  });

test('a create during the build waits for it, an asynchronous one is answered at once, and a killed host begins again', async () => {
  await until(async () => (await template()).status === 'building', 60_000);
  const soon = await create({ is_async: true });
  expect(soon.message).toBe('The image of the template is being built; the sandbox starts when it is ready');
  expect(['created', 'starting']).toContain(soon.data.status);
  await until(() => builders().length > 0, 60_000);
  await platform.kill('host');
  await until(() => builders().length === 0, 10_000);
  await platform.up('host');
  const waited = await create({});
  expect(waited).toMatchObject({
    message: 'The image of the template had to be built first',
    data: { status: 'running' },
  });
  expect((await template()).status).toBe('available');
  const left = fs.readdirSync(path.join(cache, 'images')).filter((name) => name.endsWith('.draft'));
  expect(left).toEqual([]);
  const later = await create({});
  expect(later.message).toBeUndefined();
  expect(later.data.status).toBe('running');
}, 600_000);
