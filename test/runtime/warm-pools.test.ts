import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { forgetImage, LoopbackRegistry } from '../support/loopback-registry.ts';
import { until } from '../support/until.ts';
import { LocalHost, onHost } from './local-host.ts';

/** Pools of frozen sandboxes of any template. */
let folder: string;
let server: LoopbackRegistry;
let host: LocalHost;
const digests: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'warm-pools-'));
  server = await LoopbackRegistry.start(folder);
  for (const name of ['one', 'two']) digests.push(push(name));
}, 300_000);
afterEach(() => host.closeEmpty());
afterAll(async () => {
  await server.stop();
  for (const digest of digests) forgetImage(digest);
  rmSync(folder, { recursive: true, force: true });
});

function push(name: string): string {
  const layout = path.join(folder, name);
  onHost('umoci', 'init', '--layout', layout);
  onHost('umoci', 'new', '--image', `${layout}:image`);
  onHost('umoci', 'insert', '--image', `${layout}:image`, '/usr/bin/tini-static', `/${name}`);
  const digestFile = path.join(folder, `${name}.digest`);
  const target = `docker://${server.address}/${name}`;
  onHost('skopeo', 'copy', '-q', '--dest-tls-verify=false', '--digestfile', digestFile, `oci:${layout}:image`, target);
  return onHost('cat', digestFile);
}

const imageReference = (name: 'one' | 'two') => `${server.address}/${name}@${digests[name === 'one' ? 0 : 1]}`;
const createFrom = async (name: 'one' | 'two') => {
  const spec = host.spec({ image: imageReference(name) });
  const place = await host.driver.create(spec);
  return { spec, place };
};
const ready = (name: 'one' | 'two', count = 1) =>
  until(() => host.countReady(imageReference(name)) >= count && host.offersAllMembers, 120_000, 20);

test("the second sandbox of a template comes from the template's own pool, and runs like any other", async () => {
  host = await LocalHost.open({ registryInsecureHttp: true, warmPoolSize: 1, warmPoolMaxSize: 4 });
  expect((await createFrom('one')).place.from).toBe('cold');
  await ready('one');
  const { spec, place } = await createFrom('one');
  expect(place.from).toBe('pool');
  await host.driver.pause(spec.sandboxId);
  expect((await host.driver.resume(spec)).from).toBe('thaw');
  expect((await createFrom('two')).place.from).toBe('cold');
}, 300_000);

test('members of a removed template end at once, and those of others stay', async () => {
  host = await LocalHost.open({ registryInsecureHttp: true, warmPoolSize: 1, warmPoolMaxSize: 4 });
  for (const name of ['one', 'two'] as const) {
    await createFrom(name);
    await ready(name);
  }
  expect(host.driver.pooledImages).toEqual([imageReference('one'), imageReference('two')]);
  await host.driver.dropPooled(imageReference('one'));
  expect([host.countReady(imageReference('one')), host.driver.pooledImages]).toEqual([0, [imageReference('two')]]);
  await ready('two');
  expect((await createFrom('one')).place.from).toBe('cold');
}, 300_000);

test('beyond the memory budget the pool of the least recently requested template is removed', async () => {
  host = await LocalHost.open({
    registryInsecureHttp: true,
    warmPoolSize: 1,
    warmPoolMaxSize: 4,
    warmPoolMemoryMb: 144,
  });
  await createFrom('one');
  await ready('one');
  await until(() => host.driver.poolReady === 2, 120_000, 20);
  await createFrom('two');
  await ready('two');
  expect(host.countReady(imageReference('one'))).toBe(0);
  expect(host.driver.poolReady).toBeLessThanOrEqual(2);
  // When it is requested again, it gets its place back.
  await createFrom('one');
  await ready('one');
  expect(host.countReady(imageReference('two'))).toBe(0);
}, 300_000);
