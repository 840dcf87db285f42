import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import type { MountCredentials } from '../../domain/sandboxes/object-storage.ts';
import type { WantedMounts } from '../../runtime/driver.ts';
import { freePort } from '../support/free-port.ts';
import { readIfThere } from '../support/read-if-there.ts';
import { S3Server, StallingProxy } from '../support/s3-server.ts';
import { TemporaryCredentials } from '../support/temporary-credentials.ts';
import { until } from '../support/until.ts';
import { LocalHost, shell } from './local-host.ts';
import { MountedSandboxes } from './mounted-sandboxes.ts';

/** Buckets of a real S3 server, mounted by real s3fs into real containers. */
let host: LocalHost;
let s3: S3Server;
const toStop: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  s3 = await S3Server.start('data', 'more');
  host = await LocalHost.open(options());
}, 300_000);

afterAll(async () => {
  for (const each of toStop) await each.stop();
  await s3?.stop();
}, 300_000);
afterAll(() => host.closeEmpty(), 300_000);

/** A working mount takes a second. A failing one is given up after half of its time. */
const options = () => ({ outboundRanges: ['127.0.0.1/32'], mountTimeoutSeconds: 12, pauseTimeoutSeconds: 8 });
const mounted = new MountedSandboxes(() => ({ host, s3 }));
const { slot, key, anew, kept, withSandbox, createSpec } = mounted;

/** The reason for which a sandbox could not be made. Nothing of it runs then. */
async function findRefusal(storage: WantedMounts): Promise<{ code: string; message: string }> {
  const spec = createSpec(storage);
  const error = await host.driver.create(spec).then(
    () => Promise.reject(new Error('it was made')),
    (reason) => reason,
  );
  expect((await host.inventory()).bucketProcesses).toEqual([]);
  await host.driver.remove(spec.sandboxId);
  return { code: error.code, message: error.message };
}

test('a file written inside is an object, and an object is a file inside', async () => {
  s3.write('data', 'reports/old.txt', 'from outside');
  await withSandbox(anew(slot()), async (place, spec) => {
    expect(place.slots).toEqual([slot()]);
    const { output } = await shell(
      place,
      spec,
      `cat /mnt/data/reports/old.txt; echo; echo written inside > /mnt/data/new.txt
      stat -c '%u:%g %F' /mnt/data/new.txt; mkdir /mnt/data/folder; mv /mnt/data/new.txt /mnt/data/folder/moved.txt
      cat /mnt/data/folder/moved.txt; rm /mnt/data/reports/old.txt; ls /mnt/data/reports`,
    );
    expect(output).toBe('from outside\n0:0 regular file\nwritten inside');
    expect(s3.read('data', 'folder/moved.txt')).toBe('written inside\n');
  });
}, 300_000);

test('a file larger than the buffers in memory is read back as it was written', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    const { output } = await shell(
      place,
      spec,
      `head -c 60000000 /dev/urandom > /tmp/big && cp /tmp/big /mnt/data/big && cmp /tmp/big /mnt/data/big && echo same
      rm /mnt/data/big`,
      60,
    );
    expect(output).toBe('same');
  });
}, 300_000);

test('a mount exists before the command of a sandbox from the pool begins', async () => {
  await using pooled = await LocalHost.open({ outboundRanges: ['127.0.0.1/32'], warmPoolSize: 1 });
  try {
    const ask = { storageGb: 10, storage: anew(slot({ uri: 's3://more/deep/er', mountPoint: '/srv/a/b' })) };
    await until(() => pooled.driver.poolReady > 0, 60_000);
    const spec = pooled.spec({ ...ask, command: { entrypoint: ['sh', '-c'], cmd: ['echo begun > /srv/a/b/begun'] } });
    const place = await pooled.driver.create(spec);
    expect(place.from).toBe('pool');
    const { output } = await shell(place, spec, 'until [ -s /srv/a/b/begun ]; do sleep 0.05; done; cat /srv/a/b/begun');
    expect(output).toBe('begun');
    expect(s3.read('more', 'deep/er/begun')).toBe('begun\n');
  } finally {
    await pooled.close();
  }
}, 300_000);

test.each<[string, () => Promise<WantedMounts> | WantedMounts, RegExp]>([
  [
    'an unknown access key',
    () => withKey({ accessKey: 'NOBODY' }),
    /knows no such bucket, or not this access key|refused/,
  ],
  ['a wrong secret key', () => withKey({ secretKey: 'wrong' }), /the storage refused the credentials/],
  ['a missing bucket', () => anew(slot({ uri: 's3://nothing-here/' })), /knows no such bucket/],
  ['an endpoint without a server', async () => anew(slot({ endpoint: await deadEndpoint() })), /could not be reached/],
  ['a name that cannot be resolved', () => anew(slot({ endpoint: 'http://s3.invalid' })), /could not be resolved/],
  ['a private address', () => anew(slot({ endpoint: 'http://10.255.255.1' })), /is not allowed/],
  ['the metadata address', () => anew(slot({ endpoint: 'http://169.254.169.254' })), /is not allowed/],
  ['another loopback address', () => anew(slot({ endpoint: 'http://127.0.0.2' })), /is not allowed/],
  [
    'loopback as an IPv4-mapped IPv6 address',
    () => anew(slot({ endpoint: 'http://[::ffff:127.0.0.2]' })),
    /is not allowed/,
  ],
  ['a mount point that is a file', () => anew(slot({ mountPoint: '/etc/passwd' })), /is not a folder/],
  ['a mount point behind a link', () => anew(slot({ mountPoint: '/var/run/x' })), /is a symbolic link/],
])(
  '%s fails the start with a reason, and nothing stays',
  async (_, storage, reason) => {
    const { code, message } = await findRefusal(await storage());
    expect({ code, message }).toEqual({ code: 'object_storage_mount_failed', message: expect.stringMatching(reason) });
    expect(message).not.toContain(s3.secretKey);
  },
  300_000,
);

test('a storage that accepts connections and never answers fails the start in time', async () => {
  const proxy = await StallingProxy.start(s3.port);
  toStop.push(proxy);
  proxy.stall();
  const startedMs = Date.now();
  const { code, message } = await findRefusal(anew(slot({ endpoint: proxy.endpoint })));
  expect({ code, message }).toMatchObject({ code: 'object_storage_mount_failed' });
  expect(message).toContain('could not be reached, or gave no usable answer');
  expect(Date.now() - startedMs).toBeLessThan(60_000);
}, 300_000);

test('with best effort a mount that fails is disabled, and the others are mounted', async () => {
  const bad = slot({ slot: 1, mountPoint: '/mnt/bad', endpoint: await deadEndpoint() });
  await withSandbox({ ...anew(slot(), bad), bestEffort: true }, async (place, spec) => {
    expect(place.slots).toEqual([slot(), { ...bad, state: 'disabled' }]);
    const { output } = await shell(place, spec, 'cut -d" " -f2,3 /proc/mounts | grep fuse.s3fs');
    expect(output).toBe('/mnt/data fuse.s3fs');
  });
}, 300_000);

test('credentials are only in the memory of s3fs, and the sandbox cannot remove its mounts', async () => {
  const temporary = await TemporaryCredentials.before(s3);
  toStop.push(temporary);
  const { accessKey, secretKey, sessionToken: token } = temporary;
  const storage = {
    ...anew(slot({ shortLived: true, endpoint: temporary.endpoint })),
    credentials: { 0: { accessKey, secretKey, sessionToken: token } },
  };
  await withSandbox(storage, async (place, spec) => {
    const found: string[] = [];
    const { bucketProcesses: holders, processes, shims } = await host.inventory();
    // The parent of both, the relay, and s3fs.
    expect(holders).toHaveLength(3);
    for (const pid of [...holders, ...processes, ...shims]) {
      for (const file of ['cmdline', 'environ']) {
        const text = readIfThere(`/proc/${pid}/${file}`);
        if ([accessKey, secretKey, token].some((secret) => text.includes(secret))) found.push(`${pid} ${file}`);
      }
    }
    const folder = `${host.dataDir}/oci/sandboxes/${spec.sandboxId}`;
    for (const name of readdirSync(folder).filter((each) => !/\.(ext4|sock)$/.test(each))) {
      const text = readFileSync(`${folder}/${name}`, 'latin1');
      if ([accessKey, secretKey, token].some((secret) => text.includes(secret))) found.push(name);
    }
    expect(found).toEqual([]);
    const s3fs = holders.filter((pid) => readIfThere(`/proc/${pid}/comm`) === 's3fs\n');
    expect(s3fs).toHaveLength(1);
    expect(readdirSync(`/proc/${s3fs[0]}/root/root/.aws`)).toEqual([]);
    const { output } = await shell(
      place,
      spec,
      `grep fuse.s3fs /proc/mounts | cut -d' ' -f3,4; umount /mnt/data 2>/dev/null; mount --bind /mnt/data /mnt 2>/dev/null
      ls / | grep -c storage; cut -d' ' -f2 /proc/mounts | grep -c /mnt; ls /dev/fuse 2>&1 | grep -c No`,
    );
    expect(output).toMatch(/^fuse\.s3fs rw,nosuid,nodev,[^\n]*\n0\n1\n1$/);
  });
}, 300_000);

test('the firewall limits s3fs to the ranges, also after a name or a redirection to another address', async () => {
  const server = net.createServer((socket) => socket.end());
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  const { port } = server.address() as AddressInfo;
  const gid = 0x6000_0000 + Number.parseInt(host.copy.id, 16);
  const connects = async (address: string, group: number) => {
    const script = `const s = require('net').connect(${port}, '${address}'); s.on('connect', () => process.exit(0)).on('error', () => process.exit(1))`;
    const child = spawn('setpriv', [`--regid=${group}`, '--clear-groups', process.execPath, '-e', script], {
      env: {},
      stdio: 'ignore',
    });
    return new Promise<boolean>((resolve) => child.once('exit', (code) => resolve(code === 0)));
  };
  expect(await connects('127.0.0.2', 0)).toBe(true);
  expect(await connects('127.0.0.1', gid)).toBe(true);
  expect(await connects('127.0.0.2', gid)).toBe(false);
  expect(await connects(host.driver.hostAddress, gid)).toBe(false);
  await new Promise((resolve) => server.close(resolve));
}, 300_000);

test('a pause keeps the mounts, and a resume changes them as its patch says', async () => {
  await withSandbox(anew(slot(), slot({ slot: 1, mountPoint: '/mnt/second' })), async (first, spec) => {
    await shell(
      first,
      spec,
      'echo before > /mnt/data/pause.txt; (while :; do date > /mnt/second/tick; sleep 0.05; done) &',
    );
    await host.driver.pause(spec.sandboxId);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
    await mounted.changeAtResumes(spec);
  });
}, 300_000);

test('a link in place of a folder of its path does not redirect a mount, and removes no other one', async () => {
  const trap = slot({ mountPoint: '/srv/box/sys' });
  await withSandbox(anew(trap), async (place, spec) => {
    const covers = "grep -c ' /proc/sys ' /proc/mounts";
    expect((await shell(place, spec, `mv /srv/box /srv/moved; ln -s /proc /srv/box; ${covers}`)).output).toBe('1');
    await host.driver.pause(spec.sandboxId);
    const behindLink = slot({ slot: 1, mountPoint: '/srv/box/1' });
    await expect(host.driver.resume({ ...spec, storage: anew(behindLink) })).rejects.toMatchObject({
      code: 'object_storage_mount_failed',
      message: expect.stringMatching(/is a symbolic link/),
    });
    const off = slot({ ...trap, state: 'disabled' });
    const back = await host.driver.resume({ ...spec, storage: kept(off) });
    expect(back.slots).toEqual([off]);
    expect((await shell(back, spec, `${covers}; ls /srv/moved/sys 2>&1`)).output).toMatch(/^1\n.*not connected/);
  });
}, 300_000);

test('mounts outlive the host worker, and end with processes that are started again without credentials', async () => {
  await mounted.restartHostWorker(options());
}, 300_000);

test('a hanging mount blocks neither pause nor end; after a pause it needs credentials', async () => {
  const proxy = await StallingProxy.start(s3.port);
  toStop.push(proxy);
  const stalling = slot({ endpoint: proxy.endpoint });
  await withSandbox(anew(stalling, slot({ slot: 1, mountPoint: '/mnt/fine' })), async (place, spec) => {
    await shell(place, spec, 'echo x > /mnt/data/x');
    proxy.stall();
    await shell(place, spec, 'setsid cat /mnt/data/never > /dev/null 2>&1 < /dev/null & sleep 0.3');
    const startedMs = Date.now();
    await host.driver.pause(spec.sandboxId);
    expect(Date.now() - startedMs).toBeLessThan(40_000);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
    const both = [stalling, slot({ slot: 1, mountPoint: '/mnt/fine' })];
    await expect(host.driver.resume({ ...spec, storage: kept(...both) })).rejects.toMatchObject({
      code: 'object_storage_credentials_required',
      message: expect.stringContaining('/mnt/data'),
    });
    const back = await host.driver.resume({ ...spec, storage: { ...kept(...both), bestEffort: true } });
    expect(back.slots).toEqual([{ ...stalling, state: 'disabled' }, both[1]]);
    expect((await shell(back, spec, 'echo f > /mnt/fine/f; ls /mnt/data; cat /mnt/fine/f')).output).toBe('f');
  });
}, 300_000);

test('a sandbox whose process waits for a hanging mount is removed in time', async () => {
  const proxy = await StallingProxy.start(s3.port);
  toStop.push(proxy);
  const spec = host.spec({ storage: anew(slot({ endpoint: proxy.endpoint })) });
  const place = await host.driver.create(spec);
  proxy.stall();
  await shell(place, spec, 'setsid cat /mnt/data/never > /dev/null 2>&1 < /dev/null & sleep 0.3');
  const startedMs = Date.now();
  await host.driver.remove(spec.sandboxId);
  expect(Date.now() - startedMs).toBeLessThan(40_000);
  expect((await host.inventory()).bucketProcesses).toEqual([]);
}, 300_000);

const withKey = (fields: Partial<MountCredentials>): WantedMounts => ({
  ...anew(slot()),
  credentials: { 0: key(fields) },
});
const deadEndpoint = async () => `http://127.0.0.1:${await freePort()}`;
