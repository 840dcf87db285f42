import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import { Transform, type TransformOptions } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import zlib from 'node:zlib';
import type { PackedLayer } from '../driver.ts';

const packProgram = path.join(import.meta.dirname, 'pack-tree.pl');
const mediaType = 'application/vnd.oci.image.layer.v1.tar+zstd';
/** Names in one layer. */
const maxFiles = 1_000_000;
const level = 3;
const refusedExitCode = 3;

/** A tree that no layer can hold; the message says what it has. */
export class UnpackableTreeError extends Error {
  override name = 'UnpackableTreeError';
}

/**
 * Packs a tree of files as the layer of an image.
 * @param tree.changes it is the upper layer of an overlay
 * @param tree.disk a file with an ext4 file system, in which the folder then is
 * @throws {UnpackableTreeError}
 */
export async function packLayer(
  tree: { folder: string; changes: boolean; disk?: string },
  file: string,
  signal?: AbortSignal,
): Promise<PackedLayer> {
  const words = {
    arch: process.arch,
    folder: tree.folder,
    changes: tree.changes ? 1 : 0,
    disk: tree.disk ?? '',
    maxFiles,
  };
  const args = ['--mount', '--propagation', 'private', 'perl', packProgram];
  const child = spawn('unshare', [...args, ...Object.entries(words).map(([key, value]) => `${key}=${value}`)], {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  let reason = '';
  child.stderr.setEncoding('latin1').on('data', (text: string) => {
    reason = (reason + text).slice(-4096);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  ended.catch(() => {});
  const [plain, packed] = [new Digest(), new Digest()];
  const params = { [zlib.constants.ZSTD_c_compressionLevel]: level };
  // Node compresses a last chunk in another way when it knows of the end already. A buffer of one byte makes the end
  // wait until the last chunk is compressed, so equal trees have equal digests.
  const options: zlib.ZstdOptions & TransformOptions = { params, writableHighWaterMark: 1 };
  await pipeline(
    child.stdout,
    plain.stream,
    zlib.createZstdCompress(options),
    packed.stream,
    createWriteStream(file, { mode: 0o600 }),
    { ...(signal && { signal }) },
  );
  const code = await ended;
  if (code === refusedExitCode) throw new UnpackableTreeError(reason.trim());
  if (code !== 0) throw new Error(`a tree could not be packed: ${reason.trim() || code}`);
  return { file, mediaType, digest: packed.digest, size: packed.size, diffId: plain.digest };
}

class Digest {
  readonly #hash = createHash('sha256');
  size = 0;
  readonly stream = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      this.size += chunk.length;
      this.#hash.update(chunk);
      done(null, chunk);
    },
  });

  get digest(): string {
    return `sha256:${this.#hash.copy().digest('hex')}`;
  }
}
