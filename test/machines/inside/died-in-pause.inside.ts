import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';
import { liveShims } from '../../../runtime/oci/live-shims.ts';
import { LocalHost, shell } from '../../runtime/local-host.ts';
import { until } from '../../support/until.ts';

/** Runs in a machine with cgroup v2 alone. */
test('a sandbox whose worker died in the middle of a pause runs after the next one has taken it over', async () => {
  await using host = await LocalHost.open();
  const spec = host.spec();
  const place = await host.driver.create(spec);
  const { instance } = liveShims(host.copy).find(({ folder }) => folder.includes(spec.sandboxId))!;
  await host.driver.close();
  // The state after the first step of a pause with a direct mount.
  const group = path.join('/sys/fs/cgroup', host.copy.cgroup, instance);
  const clients = path.join(group, 'clients');
  mkdirSync(clients);
  const pids = readFileSync(path.join(group, 'cgroup.procs'), 'latin1').trim().split('\n');
  for (const pid of pids) writeFileSync(path.join(clients, 'cgroup.procs'), pid);
  writeFileSync(path.join(clients, 'cgroup.freeze'), '1');
  await until(() => readFileSync(path.join(clients, 'cgroup.events'), 'latin1').includes('frozen 1'));

  await host.start();
  expect((await host.driver.inspect(spec.sandboxId)).state).toBe('running');
  expect(existsSync(clients)).toBe(false);
  expect(await shell(place, spec, 'echo goes on')).toEqual({ exitCode: 0, output: 'goes on' });
});
