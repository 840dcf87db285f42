import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { contextsOf, findSelinux } from '../../../runtime/oci/selinux.ts';
import { LocalHost, onHost, shell } from '../../runtime/local-host.ts';

/**
 * Runs in a machine whose kernel enforces SELinux, with Debian's policy. Like Fedora's, its services are not confined; the
 * domain of this process allows everything.
 */
const guide = readFileSync('docs/machines.md', 'utf8');
const rules = /```text\n(\(typeattributeset[^`]*)```/.exec(guide)![1]!;

test('the rules of docs/machines.md are those that the driver misses', () => {
  expect(onHost('cat', '/sys/fs/selinux/enforce')).toBe('1');
  expect(findSelinux()).toEqual({ isUsed: false, missing: expect.stringContaining('allow container_t') });
  const install = 'cat > /run/sandbox-platform.cil && semodule -i /run/sandbox-platform.cil';
  execFileSync('sh', ['-c', install], { input: rules });
  expect(findSelinux()).toEqual({ isUsed: true, missing: null });
}, 600_000);

test('sandboxes run in contexts of their own, and live as without SELinux', async () => {
  await using host = await LocalHost.open();
  const [first, second] = [host.spec(), host.spec()];
  const place = await host.driver.create(first);
  const other = await host.driver.create(second);
  const contextOf = async (at: typeof place, of: typeof first) =>
    (await shell(at, of, "tr -d '\\0' < /proc/self/attr/current")).output;
  const contexts = [await contextOf(place, first), await contextOf(other, second)];
  for (const context of contexts) expect(context).toMatch(/^system_u:system_r:container_t:s0:c\d+,c\d+$/);
  expect(contexts[0]).not.toBe(contexts[1]);
  const files = (await shell(place, first, 'echo text > /root/file && ls -d --context /root/file /tmp /etc/passwd'))
    .output;
  const label = contexts[0]!.replace('system_r:container_t', 'object_r:container_file_t');
  expect(files.match(/system_u:\S+/g)).toEqual([label, label, label]);

  await host.driver.pause(first.sandboxId);
  await host.driver.resume(first);
  expect(await shell(place, first, 'cat /root/file; python3 -c "print(6 * 7)"')).toEqual({
    exitCode: 0,
    output: 'text\n42',
  });
  await host.driver.remove(first.sandboxId);
  await host.driver.remove(second.sandboxId);
  expect(host.warnings).toEqual([]);
}, 600_000);

test('a process with the context of a sandbox reads files of the same context alone', () => {
  const [own, other] = [contextsOf(1), contextsOf(2)];
  onHost('mkdir', '/var/lib/contexts');
  const file = (name: string, context: string) => {
    onHost('cp', '/usr/bin/cat', `/var/lib/contexts/${name}`);
    onHost('chcon', context, `/var/lib/contexts/${name}`);
  };
  file('own', own.files);
  file('other', other.files);
  file('host', 'system_u:object_r:shadow_t:s0');
  const read = (name: string) =>
    spawnSync('runcon', [own.process, '/var/lib/contexts/own', `/var/lib/contexts/${name}`]).stderr.toString();
  onHost('chcon', own.files, '/var/lib/contexts');
  expect(read('own')).toBe('');
  for (const name of ['other', 'host']) expect(read(name)).toMatch(/Permission denied/);
});
