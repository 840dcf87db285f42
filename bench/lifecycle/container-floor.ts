import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { loadSettings } from '../../platform/config/settings.ts';
import { ensureBaseImage } from '../../runtime/images/base-image.ts';
import { inTurn, timed } from '../statistics.ts';

const run = promisify(execFile);
const namespaces = ['pid', 'mount', 'uts', 'ipc', 'cgroup', 'network'].map((type) => ({ type }));

/**
 * Makes an overlay of the base image, and runs `/bin/true` on it with `crun run` in its own namespaces, with limits.
 */
const script = `set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/rootfs"
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
exec crun --root "$2/state" run --bundle "$2" "$3"`;

/** Milliseconds of the container runtime alone, on the same image. Needs root. */
export async function measureContainerFloor(
  times: number,
  concurrent: number,
): Promise<{ inTurn: number[]; atOnce: number[] }> {
  const settings = loadSettings({
    ...process.env,
    DATABASE_URL: '-',
    PLATFORM_SECRET_KEY: Buffer.alloc(32).toString('base64'),
  });
  const image = await ensureBaseImage({ cacheDir: settings.PLATFORM_CACHE_DIR });
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'sandbox-platform-bench-'));
  let made = 0;
  const one = async () => {
    const id = `bench-${process.pid}-${made++}`;
    const bundle = path.join(scratch, id);
    for (const name of ['upper', 'work', 'rootfs', 'state']) fs.mkdirSync(path.join(bundle, name), { recursive: true });
    fs.writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(config(id)));
    return timed(() => run('unshare', ['-m', 'sh', '-c', script, 'sh', image.rootfs, bundle, id]));
  };
  try {
    await one();
    return { inTurn: await inTurn(times, one), atOnce: await Promise.all(Array.from({ length: concurrent }, one)) };
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

function config(id: string): object {
  return {
    ociVersion: '1.0.2',
    root: { path: 'rootfs' },
    hostname: id,
    process: { args: ['/bin/true'], cwd: '/', env: ['PATH=/usr/bin:/bin'], user: { uid: 0, gid: 0 } },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs' },
    ],
    linux: { namespaces, cgroupsPath: `/${id}`, resources: { memory: { limit: 268_435_456 }, pids: { limit: 1024 } } },
  };
}
