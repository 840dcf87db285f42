import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { forgetImage, LoopbackRegistry } from './loopback-registry.ts';

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

/** A user's image with Debian's s3fs, in a registry on loopback. */
export class S3fsImage {
  readonly reference: string;
  readonly #folder: string;
  readonly #registry: LoopbackRegistry;

  private constructor(folder: string, reference: string, registry: LoopbackRegistry) {
    this.#folder = folder;
    this.reference = reference;
    this.#registry = registry;
  }

  static async start(): Promise<S3fsImage> {
    const folder = mkdtempSync(path.join(os.tmpdir(), 's3fs-image-'));
    const registry = await LoopbackRegistry.start(folder);
    return new S3fsImage(folder, `${registry.address}/own@${push(folder, registry.address)}`, registry);
  }

  async stop(): Promise<void> {
    await this.#registry.stop();
    forgetImage(this.reference.split('@')[1]!);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Pushes an image with this machine's programs and their libraries, a second s3fs outside of the search path, and one
 * that mounts only where it finds what libfuse 3 looks for.
 */
function push(folder: string, registry: string): string {
  const script = `
    umask 022; mkdir -p tree/usr/bin tree/etc/ssl tree/tmp tree/root tree/opt; cd tree; ln -s usr/bin bin; chmod 1777 tmp
    echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd; echo 'root:x:0:' > etc/group
    for name in ${programs.join(' ')}; do file=$(readlink -f $(command -v $name || echo /bin/$name)); cp $file usr/bin/$name
      for library in $(ldd $file | grep -o '/[^ ]*'); do mkdir -p .$(dirname $library); cp -Lu $library .$library; done; done
    cp usr/bin/s3fs opt/my-s3fs; cp usr/bin/s3fs usr/bin/not-executable; chmod 644 usr/bin/not-executable
    printf '#!/bin/sh\\ncommand -v fusermount3 > /dev/null && exec s3fs "$@"\\n' > opt/s3fs-fuse3; chmod 755 opt/s3fs-fuse3; cd ..
    umoci init --layout layout; umoci new --image layout:image; umoci insert --image layout:image tree /
    skopeo copy -q --dest-tls-verify=false --digestfile digest oci:layout:image docker://${registry}/own:1`;
  execFileSync('sh', ['-ec', script], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  return readFileSync(path.join(folder, 'digest'), 'utf8').trim();
}
