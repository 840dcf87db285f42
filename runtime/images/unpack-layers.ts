import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { Duplex, PassThrough, type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import zlib from 'node:zlib';
import type { ImageBlob } from '../../domain/templates/image-manifest.ts';

const unpackProgram = path.join(import.meta.dirname, 'unpack-layer.pl');
const refusedExitCode = 3;
const stderrTailLength = 4096;

/** An image that no host can run: its layers are damaged, malicious or too large. */
export class ImageRefusedError extends Error {
  override name = 'ImageRefusedError';
}

/** The limits of an unpacked image. */
export interface ImageLimits {
  /** Without holes of sparse files. */
  maxBytes: number;
  /** Names in all layers. */
  maxFiles: number;
}

export interface LayerSource extends ImageBlob {
  open(signal: AbortSignal | undefined): Promise<Readable>;
}

/** A layer in a file, in the form of its registry. */
export function layerInFile(file: string, blob: ImageBlob): LayerSource {
  return { ...blob, open: async () => createReadStream(file, { highWaterMark: 1024 * 1024 }) };
}

/**
 * Unpacks layers into a new folder, beginning with the lowest. The digest of each is checked.
 * @throws {ImageRefusedError} when the image is invalid
 */
export async function unpackLayers(
  layers: readonly LayerSource[],
  rootfs: string,
  { maxBytes, maxFiles }: ImageLimits,
  signal?: AbortSignal,
): Promise<void> {
  await mkdir(rootfs);
  // Sets the mode explicitly, because the umask may differ.
  await chmod(rootfs, 0o755);
  const left = { maxBytes, maxFiles };
  for (const [at, layer] of layers.entries()) {
    try {
      const { files, bytes } = await unpackLayer(layer, rootfs, left, signal);
      left.maxBytes -= bytes;
      left.maxFiles -= files;
    } catch (error) {
      if (!(error instanceof ImageRefusedError)) throw error;
      // The message has the limit of this layer. It is replaced by the limit of the image, which the reader knows.
      const text = error.message
        .replace(`more than ${left.maxBytes} bytes`, `more than the ${maxBytes} bytes that an image may have`)
        .replace(`more than ${left.maxFiles} files`, `more than the ${maxFiles} files that an image may have`);
      throw new ImageRefusedError(`Layer ${at + 1} of ${layers.length}: ${text}`, { cause: error });
    }
  }
}

async function unpackLayer(
  layer: LayerSource,
  rootfs: string,
  left: ImageLimits,
  signal: AbortSignal | undefined,
): Promise<{ files: number; bytes: number }> {
  const source = await layer.open(signal);
  let sourceFailed = false;
  source.once('error', () => {
    sourceFailed = true;
  });
  const words = { arch: process.arch, folder: rootfs, ...left };
  const child = spawn('perl', [unpackProgram, ...Object.entries(words).map(([key, value]) => `${key}=${value}`)], {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let [said, reason] = ['', ''];
  child.stdout.setEncoding('latin1').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('latin1').on('data', (text: string) => {
    reason = (reason + text).slice(-stderrTailLength);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  ended.catch(() => {});
  try {
    await pipeline(
      source,
      checkedBy(layer),
      decompressor(),
      // Empty files and headers also take bytes of the archive.
      limitedTo(2 * left.maxBytes + 4096 * left.maxFiles),
      child.stdin,
      { ...(signal && { signal }) },
    );
  } catch (error) {
    signal?.throwIfAborted();
    const isOfSource = sourceFailed || error instanceof ImageRefusedError || error instanceof BlobDamagedError;
    // A program that fails does not read to the end, and prints the reason.
    const gaveUp = !isOfSource && !isOfDecompressor(error);
    if (gaveUp && (await Promise.race([ended, inAMoment()])) === refusedExitCode) {
      throw new ImageRefusedError(reason.trim());
    }
    child.kill('SIGKILL');
    throw isOfDecompressor(error) ? new ImageRefusedError('the layer cannot be decompressed', { cause: error }) : error;
  } finally {
    source.destroy();
    if (signal?.aborted) child.kill('SIGKILL');
  }
  const code = await ended;
  if (code === refusedExitCode) throw new ImageRefusedError(reason.trim());
  const [, files, bytes] = /^(\d+) (\d+)\n$/.exec(said) ?? [];
  if (code !== 0 || !files || !bytes) throw new Error(`a layer could not be unpacked: ${reason.trim() || code}`);
  return { files: Number(files), bytes: Number(bytes) };
}

/** The delay before a program that should end by itself is ended. */
const inAMoment = () => delay(5000, null, { ref: false });

const isOfDecompressor = (error: unknown) => /^(Z_|ZSTD_|ERR_ZSTD)/.test((error as NodeJS.ErrnoException).code ?? '');

/** Passes a blob on, and fails at its end if its digest or size is wrong. */
function checkedBy({ digest, size }: ImageBlob): Transform {
  const [algorithm, expected] = digest.split(':') as [string, string];
  const hash = createHash(algorithm);
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      hash.update(chunk);
      if (seen > size) done(new ImageRefusedError(`it is larger than the ${size} bytes that its manifest names`));
      else done(null, chunk);
    },
    flush(done) {
      if (hash.digest('hex') === expected && seen === size) done();
      else done(new BlobDamagedError(`the blob ${digest} is not what its digest names`));
    },
  });
}

/** A blob does not match its digest. Another attempt may succeed. */
class BlobDamagedError extends Error {
  override name = 'BlobDamagedError';
}

function limitedTo(maxBytes: number): Transform {
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      if (seen > maxBytes) done(new ImageRefusedError('the layer is much larger than what an image may have'));
      else done(null, chunk);
    },
  });
}

/** Detected by the first bytes, because many images have wrong media types. */
function decompressor(): Duplex {
  return Duplex.from(async function* (source: AsyncIterable<Buffer>) {
    let first = Buffer.alloc(0);
    const iterator = source[Symbol.asyncIterator]();
    while (first.length < 4) {
      const { value, done } = await iterator.next();
      if (done) break;
      first = Buffer.concat([first, value]);
    }
    const rest = async function* () {
      yield first;
      for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value;
    };
    if (isZstd(first)) return yield* unzstd(rest());
    const isGzip = first[0] === 0x1f && first[1] === 0x8b;
    const into = isGzip ? zlib.createGunzip({ chunkSize: 256 * 1024 }) : new PassThrough();
    const fed = pipeline(rest, into);
    fed.catch(() => {});
    for await (const chunk of into) yield chunk as Buffer;
    await fed;
  });
}

/** A zstd frame, or a skippable frame, which some tools put before the first frame. */
function isZstd(first: Buffer): boolean {
  const magic = first.length >= 4 ? first.readUInt32LE() : 0;
  return magic === 0xfd2fb528 || (magic & 0xfffffff0) >>> 0 === 0x184d2a50;
}

/**
 * Uses the zstd program, because Node's own stream ends after the first frame, and `zstd:chunked` layers have
 * thousands.
 */
async function* unzstd(packed: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const program = spawn('zstd', ['--decompress', '--stdout', '--quiet'], {
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    program.once('error', reject);
    program.once('close', resolve);
  });
  ended.catch(() => {});
  const fed = pipeline(packed, program.stdin).then(
    () => null,
    (error: NodeJS.ErrnoException) => error,
  );
  try {
    for await (const chunk of program.stdout) yield chunk as Buffer;
    const error = await fed;
    if (error && error.code !== 'EPIPE') throw error;
    if ((await ended) !== 0) throw new ImageRefusedError('the layer cannot be decompressed');
  } finally {
    program.kill('SIGKILL');
  }
}
