import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { type Readable, Transform, type TransformOptions } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import zlib from 'node:zlib';
import type { PackedLayer } from '../driver.ts';

const mediaType = 'application/vnd.oci.image.layer.v1.tar+zstd';
const level = 3;

/** Compresses a tar archive into a file as the layer of an image. */
export async function writeLayer(archive: Readable, file: string, signal?: AbortSignal): Promise<PackedLayer> {
  const [plain, packed] = [new Digest(), new Digest()];
  const params = { [zlib.constants.ZSTD_c_compressionLevel]: level };
  // Node compresses a last chunk in another way when it knows of the end already. A buffer of one byte makes the end
  // wait until the last chunk is compressed, so equal trees have equal digests.
  const options: zlib.ZstdOptions & TransformOptions = { params, writableHighWaterMark: 1 };
  await pipeline(
    archive,
    plain.stream,
    zlib.createZstdCompress(options),
    packed.stream,
    createWriteStream(file, { mode: 0o600 }),
    { ...(signal && { signal }) },
  );
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
