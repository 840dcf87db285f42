import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Cgroups } from '../../runtime/oci/cgroups.ts';
import { liveShims } from '../../runtime/oci/live-shims.ts';
import { until } from '../support/until.ts';
import { LocalHost, shell } from './local-host.ts';

let host: LocalHost;
beforeAll(async () => {
  host = await LocalHost.open();
}, 300_000);
afterAll(() => host.closeEmpty());

const mib = 1024;

/** A sandbox that has written 60 MiB, which stay in memory. */
async function withCache() {
  const spec = host.spec();
  const place = await host.driver.create(spec);
  await shell(place, spec, 'head -c 60M /dev/urandom > /root/file; sync /root/file; sha256sum /root/file > /root/sum');
  const { instance } = liveShims(host.copy).find(({ folder }) => folder.includes(spec.sandboxId))!;
  const memory = () => new Cgroups(host.copy.cgroup).readUse(instance).memory;
  expect(memory().cache).toBeGreaterThan(50 * mib);
  return { spec, place, memory };
}

test('the file cache of a paused sandbox is given back, unless the sandbox has been resumed by then', async () => {
  const [paused, resumed] = [await withCache(), await withCache()];
  for (const { spec } of [resumed, paused]) await host.driver.pause(spec.sandboxId);
  await host.driver.resume(resumed.spec);
  const { anonymous } = paused.memory();
  await until(() => paused.memory().cache < 10 * mib);
  expect(resumed.memory().cache).toBeGreaterThan(50 * mib);
  // Without swap, the memory of processes stays. The kernel counts it in batches: 0.5 MiB for two processors, on several levels.
  expect(Math.abs(paused.memory().anonymous - anonymous)).toBeLessThan(2 * mib);

  await host.driver.resume(paused.spec);
  const sum = await shell(paused.place, paused.spec, 'cd /root && sha256sum --check sum');
  expect(sum).toEqual({ exitCode: 0, output: '/root/file: OK' });
}, 300_000);
