import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { imageFolder } from '../../runtime/images/unpacked-image.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { freePort } from './s3-server.ts';
import { until } from './until.ts';

const programs = [
  ...[
    'sh',
    'cat',
    'ls',
    'rm',
    'mkdir',
    'sleep',
    'date',
    'grep',
    'cut',
    'setsid',
    'mount',
    'umount',
    'id',
    'stat',
    'tr',
    'sort',
  ],
  ...['s3fs', 'fusermount', 'readlink'],
];

/** An image of a user's own, with Debian's s3fs in it, in a registry on loopback. */
export class S3fsImage {
  readonly reference: string;
  readonly #folder: string;
  readonly #stop: () => Promise<void>;

  private constructor(folder: string, reference: string, stop: () => Promise<void>) {
    this.#folder = folder;
    this.reference = reference;
    this.#stop = stop;
  }

  static async start(): Promise<S3fsImage> {
    const folder = mkdtempSync(path.join(os.tmpdir(), 's3fs-image-'));
    const registry = `127.0.0.1:${await freePort()}`;
    const config = path.join(folder, 'registry.yml');
    writeFileSync(
      config,
      `version: 0.1\nstorage: { filesystem: { rootdirectory: ${folder}/registry } }\nhttp: { addr: ${registry} }\n`,
    );
    const server = spawn('docker-registry', ['serve', config], { stdio: 'ignore' });
    const ended = new Promise((resolve) => server.once('close', resolve));
    await until(
      () =>
        fetch(`http://${registry}/v2/`).then(
          (reply) => reply.ok,
          () => false,
        ),
      20_000,
    );
    const digest = push(folder, registry);
    return new S3fsImage(folder, `${registry}/own@${digest}`, async () => {
      server.kill();
      await ended;
    });
  }

  async stop(): Promise<void> {
    await this.#stop();
    const unpacked = imageFolder(cacheDir(), this.reference.split('@')[1]!);
    for (const left of [unpacked, `${unpacked}.lock`]) rmSync(left, { recursive: true, force: true });
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** This machine's programs with all the libraries they load, and a second s3fs out of the way. */
function push(folder: string, registry: string): string {
  const script = `
    umask 022; mkdir -p tree/usr/bin tree/etc/ssl tree/tmp tree/root tree/opt; cd tree; ln -s usr/bin bin; chmod 1777 tmp
    echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd; echo 'root:x:0:' > etc/group
    for name in ${programs.join(' ')}; do file=$(readlink -f $(command -v $name || echo /bin/$name)); cp $file usr/bin/$name
      for library in $(ldd $file | grep -o '/[^ ]*'); do mkdir -p .$(dirname $library); cp -Lu $library .$library; done; done
    cp usr/bin/s3fs opt/my-s3fs; cp usr/bin/s3fs usr/bin/not-executable; chmod 644 usr/bin/not-executable; cd ..
    umoci init --layout layout; umoci new --image layout:image; umoci insert --image layout:image tree /
    skopeo copy -q --dest-tls-verify=false --digestfile digest oci:layout:image docker://${registry}/own:1`;
  execFileSync('sh', ['-ec', script], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  return readFileSync(path.join(folder, 'digest'), 'utf8').trim();
}
