import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openLocalCa } from '../../gateway/tls/local-ca.ts';
import { claimPorts } from '../../ops/local-stack/embedded/port-claims.ts';
import { choosePorts } from '../../ops/local-stack/embedded/ports.ts';
import { ProcessRecord } from '../../ops/local-stack/embedded/process-record.ts';
import { openDataFolder } from '../../ops/local-stack/supervisor/data-folder.ts';
import { NotRunningError, runningPlatformEnv } from '../../ops/local-stack/supervisor/running-platform.ts';
import { loadSettings } from '../../platform/config/settings.ts';
import { imageFolder, makeImageOnce, rootfsPath } from '../../runtime/images/image-cache.ts';
import { ensureBlankDisk } from '../../runtime/oci/blank-disk.ts';
import { readHostId } from '../../worker/hosts/identity.ts';

/** How starts treat files that are empty, truncated or garbage after a power cut, a full disk or a manual change. */
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'damaged-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const damages: Record<string, (file: string) => void> = {
  empty: (file) => writeFileSync(file, ''),
  'cut short': (file) => truncateSync(file, Math.floor(statSync(file).size / 2)),
  garbage: (file) => writeFileSync(file, Buffer.alloc(300, 0xa5)),
  'of wrong types': (file) => writeFileSync(file, '{"pid":"one","8000":{"pid":-1}}'),
};

describe.each(Object.entries(damages))('a file that is %s', (_, damage) => {
  test('of the processes of a former start: the start continues, and the file is kept for operators', async () => {
    const file = path.join(dir, 'processes.json');
    new ProcessRecord(file).add('me', process.pid);
    damage(file);
    expect(await new ProcessRecord(file).endLeftovers()).toEqual([]);
    expect(existsSync(`${file}.damaged`)).toBe(true);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual([]);
  });

  test('of claimed and remembered ports: new ports are chosen', async () => {
    await claimPorts(dir, async () => ({ mine: 8000 }));
    damage(path.join(dir, 'ports.json'));
    expect(await claimPorts(dir, async (others) => ({ others: others.size }))).toEqual({ others: 0 });
    const data = path.join(dir, 'data');
    mkdirSync(data);
    const requests = [{ name: 'PLATFORM_API_PORT', preferred: 20_100 }] as const;
    await choosePorts(data, requests, dir);
    damage(path.join(data, 'ports.json'));
    expect((await choosePorts(data, requests, dir)).PLATFORM_API_PORT).toBeGreaterThanOrEqual(20_100);
  });

  test('of settings: commands report that no platform runs', () => {
    writeFileSync(path.join(dir, 'settings.json'), '{"PLATFORM_URL":"x","DATABASE_URL":"y"}');
    writeFileSync(path.join(dir, 'platform.pid'), `${process.pid}\n`);
    damage(path.join(dir, 'settings.json'));
    expect(() => runningPlatformEnv(dir, {})).toThrow(NotRunningError);
  });

  test('of the certificate authority: a new one is made, and the old file is kept', async () => {
    const before = await openLocalCa(dir);
    damage(path.join(dir, 'ca/ca.pem'));
    const made = await openLocalCa(dir);
    expect(made.certificatePem).not.toBe(before.certificatePem);
    damage(path.join(dir, 'ca/ca-key.pem'));
    expect(await openLocalCa(dir)).not.toEqual(made);
    expect(await openLocalCa(dir)).toEqual(await openLocalCa(dir));
  });

  test('of the secret key, or of the host: the start is refused with instructions', async () => {
    await (await openDataFolder(dir)).release();
    damage(path.join(dir, 'secret-key'));
    const kept = readFileSync(path.join(dir, 'secret-key'));
    await expect(openDataFolder(dir)).rejects.toThrow(/secret-key is damaged/);
    expect(readFileSync(path.join(dir, 'secret-key'))).toEqual(kept);
    const settings = loadSettings({
      DATABASE_URL: 'postgres://x/y',
      PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
      PLATFORM_DATA_DIR: dir,
    });
    readHostId(settings);
    damage(path.join(dir, 'host-id'));
    expect(() => readHostId(settings)).toThrow(/host-id is damaged/);
  });

  test('of an image or a blank disk in the cache: it is made again', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    let made = 0;
    const make = () =>
      makeImageOnce({
        cacheDir: dir,
        digest,
        make: async (draft) => {
          made += 1;
          mkdirSync(rootfsPath(draft));
          return { env: {}, workingDir: null, user: null, entrypoint: [], cmd: [] };
        },
      });
    await make();
    damage(path.join(imageFolder(dir, digest), 'image.json'));
    expect((await make()).digest).toBe(digest);
    rmSync(rootfsPath(imageFolder(dir, digest)), { recursive: true });
    expect((await make()).digest).toBe(digest);
    await make();
    expect(made).toBe(3);

    const disk = await ensureBlankDisk(dir, 1);
    damage(disk);
    await ensureBlankDisk(dir, 1);
    const mark = readFileSync(disk).subarray(1080, 1082);
    expect({ mark: mark.toString('hex'), size: statSync(disk).size }).toEqual({ mark: '53ef', size: 2 ** 30 });
  });
});
