import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PackedLayer, SandboxPlace, SandboxSpec } from '../../runtime/driver.ts';
import { packLayer } from '../../runtime/images/pack-layer.ts';
import { layerInFile, unpackLayers } from '../../runtime/images/unpack-layers.ts';
import { endIfThere } from '../support/end-if-there.ts';
import { until } from '../support/until.ts';
import { LocalHost, onHost, shell } from './local-host.ts';

/** The changes of sandboxes become a layer while the sandboxes run. */
let host: LocalHost;
let folder: string;
let spec: SandboxSpec;
let place: SandboxPlace;
let builds = 0;

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'image-builds-'));
  host = await LocalHost.open();
  spec = host.spec({ storageGb: 2 });
  place = await host.driver.create(spec);
}, 300_000);
afterAll(() => host.closeEmpty());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const inside = async (script: string, at = { place, spec }) => {
  const { exitCode, output } = await shell(at.place, at.spec, script, 60);
  expect([exitCode, output]).toEqual([0, expect.any(String)]);
  return output;
};

const newBuild = () => `tpl-build${builds++}`;

async function build(sandboxId = spec.sandboxId): Promise<PackedLayer> {
  const buildId = newBuild();
  await host.driver.builds.copyDisk(buildId, sandboxId);
  return host.driver.builds.packChanges(buildId, 'acc-test');
}

/** Unpacks the changes over a tree that has the files that they delete. */
async function unpacked(layer: PackedLayer): Promise<string> {
  const rootfs = mkdtempSync(path.join(folder, 'tree-'));
  rmSync(rootfs, { recursive: true });
  await unpackLayers([layerInFile(layer.file, layer)], rootfs, { maxBytes: 1e9, maxFiles: 100_000 });
  return rootfs;
}

const isRunning = async () => (await host.driver.inspect(spec.sandboxId)).state === 'running';

test('a layer has the files unchanged: owners, modes, links, attributes, capabilities, holes and odd names', async () => {
  await inside(`mkdir -p /opt/made/deep; cd /opt/made
    echo content >file; chown 1000:1000 file; chmod 4751 file; ln file hard; ln -s ../nowhere link; mkfifo pipe
    truncate -s 300G holes; printf end | dd of=holes bs=1 seek=200000000000 conv=notrunc status=none
    python3 -c "
import os, socket, struct
os.setxattr('file', 'user.note', b'a\\\\nb\\\\0c')
open('cap', 'w').close(); os.setxattr('cap', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 13, 0, 0, 0))
open(b'new\\\\nline\\\\xff', 'w').close()
os.chdir('deep')
for at in range(12): os.mkdir('d' * 200); os.chdir('d' * 200)
socket.socket(socket.AF_UNIX).bind('/opt/made/socket')
"
    touch -d @86400 file; rm -rf /usr/share/doc /etc/sudoers.d; mkdir /etc/sudoers.d; echo new >/etc/sudoers.d/new; rm /etc/motd 2>/dev/null; true`);
  const layer = await build();
  const made = path.join(await unpacked(layer), 'opt/made');
  const about = (name: string) => statSync(path.join(made, name));
  expect(about('file')).toMatchObject({ mode: 0o104751, uid: 1000, gid: 1000, nlink: 2, mtimeMs: 86_400_000 });
  expect(about('hard').ino).toBe(about('file').ino);
  expect(readFileSync(path.join(made, 'hard'), 'utf8')).toBe('content\n');
  expect(onHost('readlink', path.join(made, 'link'))).toBe('../nowhere');
  expect(about('pipe').isFIFO()).toBe(true);
  expect(about('holes').size).toBe(300 * 1024 ** 3);
  expect(about('holes').blocks * 512).toBeLessThan(1024 ** 2);
  const attributes = onHost(
    'python3',
    '-c',
    'import os, sys; os.chdir(sys.argv[1]); print(os.getxattr("file", "user.note"), os.getxattr("cap", "security.capability").hex())',
    made,
  );
  expect(attributes).toBe(`b'a\\nb\\x00c' 0100000200200000000000000000000000000000`);
  const names = readdirSync(made, { encoding: 'buffer' }).map((name) => name.toString('latin1'));
  expect(names).toContain('new\nline\xff');
  expect(names).not.toContain('socket');
  expect(onHost('sh', '-c', `find '${made}/deep' | wc -l`)).toBe('13');
  const entries = execFileSync('sh', ['-c', `zstd -dc '${layer.file}' | tar t`], { encoding: 'utf8' }).split('\n');
  expect(entries).toEqual(
    expect.arrayContaining(['usr/share/.wh.doc', 'etc/sudoers.d/.wh..wh..opq', 'etc/sudoers.d/new']),
  );
  expect(layer.size).toBeLessThan(1024 ** 2);
});

test('the copy is of one moment while processes write, and they continue after it', async () => {
  // Each line of `second` follows its line of `first`, so at no moment `second` has more lines.
  await inside(`mkdir -p /opt/pair; cd /opt/pair; cat >write <<'END'
at=0; while :; do at=$((at+1)); echo $at >>first; echo $at >>second; [ $((at % 50)) = 0 ] && sleep 0.01; done
END
    nohup sh write >/dev/null 2>&1 & echo $! >/opt/writer; until [ -s second ]; do sleep 0.02; done`);
  for (let round = 0; round < 3; round += 1) {
    const tree = await unpacked(await build());
    const lines = (name: string) => readFileSync(path.join(tree, 'opt/pair', name), 'utf8').split('\n');
    const [first, second] = [lines('first'), lines('second')];
    expect(first.length).toBeGreaterThan(1);
    expect([
      first.length - second.length === 0 || first.length - second.length === 1,
      first.at(-1),
      second.at(-1),
    ]).toEqual([true, '', '']);
    expect(first.slice(0, -1)).toEqual(first.slice(0, -1).map((_, at) => String(at + 1)));
    const before = Number(await inside('wc -l </opt/pair/first'));
    await until(async () => Number(await inside('wc -l </opt/pair/first')) > before);
  }
  await inside('kill $(cat /opt/writer)');
});

test('a paused sandbox stays paused, and one that ends meanwhile ends the copy', async () => {
  const other = host.spec({ storageGb: 1 });
  await host.driver.create(other);
  await host.driver.pause(other.sandboxId);
  await build(other.sandboxId);
  expect((await host.driver.inspect(other.sandboxId)).state).toBe('paused');
  const ended = host.driver.builds.copyDisk(newBuild(), other.sandboxId).catch((error) => error);
  await host.driver.stop(other.sandboxId);
  const outcome = await ended;
  if (outcome instanceof Error) expect(['aborted', 'sandbox_absent']).toContain((outcome as { code?: string }).code);
  await expect(host.driver.builds.copyDisk(newBuild(), other.sandboxId)).rejects.toMatchObject({
    code: 'sandbox_absent',
  });
  await host.driver.remove(other.sandboxId);
});

test('if the program or the caller of a copy is killed, the sandbox continues and nothing unfinished is left', async () => {
  await inside('head -c 60M /dev/urandom >/opt/large');
  const buildId = newBuild();
  const caller = new AbortController();
  const cancelled = host.driver.builds.copyDisk(buildId, spec.sandboxId, caller.signal);
  caller.abort();
  await expect(cancelled).rejects.toMatchObject({ code: 'aborted' });
  let hasEnded = false;
  const killed = host.driver.builds
    .copyDisk(buildId, spec.sandboxId)
    .then(
      () => 'done',
      (error) => error.code,
    )
    .finally(() => {
      hasEnded = true;
    });
  await until(() => hasEnded || copying(host.dataDir).length > 0);
  for (const pid of copying(host.dataDir)) endIfThere(pid);
  expect(['snapshot_failed', 'done']).toContain(await killed);
  expect(await isRunning()).toBe(true);
  await inside('true');
  await host.driver.builds.copyDisk(buildId, spec.sandboxId);
  await host.driver.builds.packChanges(buildId, 'acc-test');
  await host.driver.builds.discard(buildId);
  expect(readdirSync(path.join(host.dataDir, 'oci/builds'))).not.toContain(buildId);
  await inside('rm /opt/large');
});

/** Pids of the programs that copy disks of this host. */
function copying(dataDir: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const words = readFileSync(`/proc/${name}/cmdline`, 'latin1');
      return words.includes('copy-disk.pl') && words.includes(dataDir) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

test('a host worker that is killed in the middle leaves no frozen sandbox behind', async () => {
  // Runs only the program, with a caller that freezes and ends before it asks for the copy.
  const target = path.join(folder, 'orphaned.ext4');
  const shim = readFileSync(path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'pids'), 'utf8').split(' ')[0];
  const freezer = findFreezer(spec.sandboxId);
  const words = {
    ...{ arch: process.arch, folder: `/proc/${shim}/root/mnt/disk`, target, warmBytes: 1e6, seconds: 60, groups: '' },
    ...{ disk: path.join(host.dataDir, 'oci/sandboxes', spec.sandboxId, 'disk.ext4') },
    ...{ thaw: freezer.file, thawText: freezer.thawed },
  };
  const program = spawn(
    'perl',
    ['runtime/oci/copy-disk.pl', ...Object.entries(words).map(([key, value]) => `${key}=${value}`)],
    { stdio: ['pipe', 'pipe', 'ignore'] },
  );
  const ended = once(program, 'close');
  await once(program.stdout, 'data');
  onHost('sh', '-c', `echo ${freezer.frozen} >'${freezer.file}'`);
  await until(async () => (await host.driver.inspect(spec.sandboxId)).state === 'paused');
  program.stdin.destroy();
  await ended;
  expect(await isRunning()).toBe(true);
  await inside('true');
});

function findFreezer(sandboxId: string): { file: string; frozen: string; thawed: string } {
  const [found] = onHost(
    'sh',
    '-c',
    // Groups of other tests, which disappear meanwhile, are not searched.
    `find $(ls -d /sys/fs/cgroup/sandboxes-${host.copy.id} /sys/fs/cgroup/*/sandboxes-${host.copy.id} 2>/dev/null) -path '*/${sandboxId}/*' \\( -name freezer.state -o -name cgroup.freeze \\)`,
  )
    .split('\n')
    .sort((a, b) => Number(b.endsWith('freezer.state')) - Number(a.endsWith('freezer.state')));
  return found!.endsWith('freezer.state')
    ? { file: found!, frozen: 'FROZEN', thawed: 'THAWED' }
    : { file: found!, frozen: '1', thawed: '0' };
}

test('files that an image cannot contain are refused by name, and no device of the host is included', async () => {
  const refused = async (script: string, text: RegExp) => {
    await inside(script);
    await expect(build()).rejects.toMatchObject({ code: 'changes_not_packable', message: expect.stringMatching(text) });
    await inside('rm -rf /opt/odd');
  };
  await refused('mkdir /opt/odd; touch "/opt/odd/.wh.file"', /begins with \.wh\..*opt\/odd\/\.wh\.file/);
  await refused(
    `mkdir /opt/odd; cd /opt/odd; python3 -c "
import os
for at in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)
"`,
    /path that is too long/,
  );
  expect(await isRunning()).toBe(true);
});

test('a tree with devices, special bits and many links is packed whole', async () => {
  const tree = path.join(folder, 'tree');
  mkdirSync(tree);
  onHost(
    'sh',
    '-c',
    `cd '${tree}'; mknod disk b 7 3; chmod 600 disk; mkdir -m 1777 tmp; mkdir -m 2755 group; echo x >0`,
  );
  for (let at = 1; at < 300; at += 1) onHost('ln', path.join(tree, '0'), path.join(tree, String(at)));
  const file = path.join(folder, 'tree.layer');
  const layer = await packLayer({ folder: tree, changes: false }, file);
  const again = await packLayer({ folder: tree, changes: false }, file);
  expect(again.digest).toBe(layer.digest);
  const rootfs = await unpacked(layer);
  expect(statSync(path.join(rootfs, 'disk'))).toMatchObject({ rdev: (7 << 8) | 3, mode: 0o60600 });
  expect(statSync(path.join(rootfs, 'tmp')).mode).toBe(0o41777);
  expect(statSync(path.join(rootfs, 'group')).mode).toBe(0o42755);
  expect(statSync(path.join(rootfs, '299')).nlink).toBe(300);
});
