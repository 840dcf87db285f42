import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { MountCredentials } from '../../domain/sandboxes/object-storage.ts';
import type { WantedMounts } from '../../runtime/driver.ts';
import { readIfThere } from '../support/read-if-there.ts';
import { S3Server } from '../support/s3-server.ts';
import { S3fsImage } from '../support/s3fs-image.ts';
import { LocalHost, shell } from './local-host.ts';
import { MountedSandboxes } from './mounted-sandboxes.ts';
import { OutsideNetwork } from './outside-network.ts';

/** Buckets of a real S3 server on another machine, mounted by the image's own s3fs inside real sandboxes. */
let host: LocalHost;
let outside: OutsideNetwork;
let s3: S3Server;
let image: S3fsImage;

beforeAll(async () => {
  outside = new OutsideNetwork(61);
  s3 = await S3Server.startIn(outside, 'data', 'more');
  image = await S3fsImage.start();
  host = await LocalHost.open(options());
}, 300_000);

afterAll(() => host.closeEmpty(), 300_000);
afterAll(async () => {
  await image.stop();
  await s3.stop();
  outside.remove();
}, 300_000);

const options = () => ({
  registryInsecureHttp: true,
  mountTimeoutSeconds: 20,
  pauseTimeoutSeconds: 20,
  openServers: [{ address: outside.far, port: s3.port }],
});
const wanted = () => ({ image: image.reference, allowInternetAccess: true, memoryMb: 512 });
const mounted = new MountedSandboxes(() => ({ host, s3, wanted: wanted() }), { direct: { s3fsPath: 's3fs' } });
const { slot, key, anew, kept, withSandbox, createSpec } = mounted;

/** The sandbox's s3fs processes. */
async function s3fsPids(): Promise<number[]> {
  const { processes } = await host.inventory();
  return processes.filter((pid) => readIfThere(`/proc/${pid}/comm`).includes('s3fs'));
}

/** The target of a descriptor, or an empty text when it was closed after it was listed. */
function linkIfThere(file: string): string {
  try {
    return readlinkSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

test("the image's own s3fs serves the bucket from inside", async () => {
  s3.write('data', 'old.txt', 'from outside');
  await withSandbox(
    anew(slot(), slot({ slot: 1, uri: 's3://more/', mountPoint: '/srv/more' })),
    async (place, spec) => {
      expect(place.slots).toHaveLength(2);
      const { output } = await shell(
        place,
        spec,
        `cat /mnt/data/old.txt; echo; echo inside > /mnt/data/new.txt; cat /mnt/data/new.txt; echo m > /srv/more/m
      grep fuse.s3fs /proc/mounts | cut -d' ' -f1,2,3 | sort; for p in /proc/[0-9]*; do cat $p/comm; done | grep -c s3fs`,
      );
      expect(output).toBe('from outside\ninside\ns3fs /mnt/data fuse.s3fs\ns3fs /srv/more fuse.s3fs\n2');
      expect(s3.read('data', 'new.txt')).toBe('inside\n');
      expect(s3.read('more', 'm')).toBe('m\n');
    },
  );
}, 300_000);

test('the program that libfuse 3 looks for exists, although the image has none', async () => {
  await withSandbox({ ...anew(slot()), direct: { s3fsPath: '/opt/s3fs-fuse3' } }, async (place, spec) => {
    const { output } = await shell(
      place,
      spec,
      'echo by 3 > /mnt/data/three; cat /mnt/data/three; ls /usr/bin/fusermount*',
    );
    expect(output).toBe('by 3\n/usr/bin/fusermount');
  });
}, 300_000);

test('s3fs has the restrictions of every process of the sandbox, and its key is in no file, environment or argument', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    const pids = await s3fsPids();
    expect(pids).toHaveLength(1);
    const status = readFileSync(`/proc/${pids[0]}/status`, 'latin1');
    const { output } = await shell(place, spec, `cat /proc/self/status`);
    const findWalls = (text: string) => text.match(/^(CapEff|CapBnd|Seccomp|Seccomp_filters):.*$/gm);
    expect(findWalls(status)).toEqual(findWalls(output));
    expect(findWalls(status)).toContain('Seccomp:\t2');
    // The host may read its descriptors, and more of them than the sandbox may.
    for (const fd of readdirSync(`/proc/${pids[0]}/fd`)) {
      const target = `/proc/${pids[0]}/fd/${fd}`;
      if (linkIfThere(target).includes('memfd')) expect(readIfThere(target)).toBe('');
    }
    const found = await shell(
      place,
      spec,
      `grep -rl -e ${s3.accessKey} /tmp /root /etc /run /dev/shm 2>/dev/null; mount -t tmpfs x /opt 2>/dev/null && echo mounted
      ls /dev/fuse 2>/dev/null; :`,
    );
    expect(found.output.replace(/^\/dev\/shm\/output-.*$/m, '')).toBe('');
    const { bucketProcesses, processes, shims } = await host.inventory();
    for (const pid of [...bucketProcesses, ...processes, ...shims]) {
      for (const file of ['cmdline', 'environ']) {
        const text = readIfThere(`/proc/${pid}/${file}`);
        expect([pid, text.includes(s3.secretKey), text.includes(s3.accessKey)]).toEqual([pid, false, false]);
      }
    }
    const folder = `${host.dataDir}/oci/sandboxes/${spec.sandboxId}`;
    for (const name of readdirSync(folder).filter((each) => !/\.(ext4|sock)$/.test(each))) {
      expect(readFileSync(`${folder}/${name}`, 'latin1')).not.toContain(s3.secretKey);
    }
  });
}, 300_000);

test.each<[string, () => WantedMounts, RegExp]>([
  [
    'no such program',
    () => ({ ...anew(slot()), direct: { s3fsPath: '/opt/none' } }),
    /the image has no program \/opt\/none/,
  ],
  [
    'a file that is no program',
    () => ({ ...anew(slot()), direct: { s3fsPath: '/usr/bin/not-executable' } }),
    /no program/,
  ],
  ['another program', () => ({ ...anew(slot()), direct: { s3fsPath: '/bin/cat' } }), /no usable answer/],
  ['a wrong secret key', () => withKey({ secretKey: 'wrong' }), /the storage refused the credentials/],
  [
    'an unknown access key',
    () => withKey({ accessKey: 'NOBODY' }),
    /knows no such bucket, or not this access key|refused/,
  ],
  ['a bucket that is not there', () => anew(slot({ uri: 's3://nothing-here/' })), /knows no such bucket/],
  [
    'the host itself',
    () => anew(slot({ endpoint: `http://${host.driver.hostAddress}:1` })),
    /could not be reached|did not answer in time/,
  ],
])(
  '%s fails the start with a reason, and nothing stays',
  async (_, storage, reason) => {
    const spec = createSpec(storage());
    const error = await host.driver.create(spec).then(
      () => Promise.reject(new Error('it was made')),
      (refusal) => refusal,
    );
    expect(error).toMatchObject({ code: 'object_storage_mount_failed', message: expect.stringMatching(reason) });
    expect(error.message).not.toContain(s3.secretKey);
    expect((await host.inventory()).bucketProcesses).toEqual([]);
    await host.driver.remove(spec.sandboxId);
  },
  300_000,
);

test('a pause freezes s3fs with the sandbox, and a resume changes the mounts as its patch says', async () => {
  const second = slot({ slot: 1, mountPoint: '/mnt/second' });
  await withSandbox({ ...anew(slot(), second), direct: { s3fsPath: '/opt/my-s3fs' } }, async (first, spec) => {
    await shell(first, spec, 'echo before > /mnt/data/pause.txt');
    await host.driver.pause(spec.sandboxId);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
    expect(await s3fsPids()).toHaveLength(2);
    await mounted.changeAtResumes(spec);
  });
}, 300_000);

test('mounts outlive the host worker, and end with processes that are started again without credentials', async () => {
  await mounted.restartHostWorker(options());
}, 300_000);

test('a pause while files are being written keeps the mount', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    await shell(
      place,
      spec,
      'setsid sh -c "while :; do date > /mnt/data/tick; done" > /dev/null 2>&1 < /dev/null & sleep 0.5',
    );
    await host.driver.pause(spec.sandboxId);
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
    const back = await host.driver.resume({ ...spec, storage: kept(slot()) });
    expect((await shell(back, spec, 'echo on > /mnt/data/on; cat /mnt/data/on')).output).toBe('on');
  });
}, 300_000);

test('an s3fs that is killed inside leaves a mount that a resume makes again', async () => {
  await withSandbox(anew(slot()), async (place, spec) => {
    const [pid] = await s3fsPids();
    process.kill(pid!, 'SIGKILL');
    const { output } = await shell(place, spec, 'until ! ls /mnt/data 2>/dev/null; do :; done; echo gone');
    expect(output).toBe('gone');
    await host.driver.pause(spec.sandboxId);
    const back = await host.driver.resume({ ...spec, storage: anew(slot()) });
    expect((await shell(back, spec, 'echo again > /mnt/data/again; cat /mnt/data/again')).output).toBe('again');
  });
}, 300_000);

const withKey = (fields: Partial<MountCredentials>): WantedMounts => ({
  ...anew(slot()),
  credentials: { 0: key(fields) },
});
