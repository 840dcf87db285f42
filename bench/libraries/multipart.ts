import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';
import { MultipartParser } from '../../agent/transfer/multipart.ts';
import type { Rivals } from './in-turns.ts';

const boundary = '----WebKitFormBoundary7MA4YWxkTrZu0gW';
const contentType = `multipart/form-data; boundary=${boundary}`;
/** The size of the pieces from a socket. */
const pieceBytes = 64 * 1024;

/** Multipart bodies: one large file, and many small ones. */
export const multipartRivals: Rivals[] = [
  rivals('multipart: a file of 256 MiB', [256 * 2 ** 20], 1),
  rivals(
    'multipart: 90 files of 1 KiB, 200 bodies',
    Array.from({ length: 90 }, () => 1024),
    200,
  ),
];

function rivals(measure: string, sizes: readonly number[], times: number): Rivals {
  const pieces = splitBytes(body(sizes));
  const wanted = sizes.reduce((sum, size) => sum + size, 0);
  const speed = async (parse: () => Promise<number>) => {
    const startedMs = performance.now();
    for (let time = 0; time < times; time += 1) {
      const received = await parse();
      if (received !== wanted) throw new Error(`${received} bytes of ${wanted}`);
    }
    return (wanted * times) / 1e6 / ((performance.now() - startedMs) / 1000);
  };
  return {
    measure,
    unit: 'MB/s',
    better: 'more',
    ours: () => speed(() => byOurs(pieces)),
    library: () => speed(() => byBusboy(pieces)),
  };
}

function body(sizes: readonly number[]): Buffer {
  const parts = sizes.flatMap((size, index) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="f${index}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
    ),
    // It contains many line ends, like text.
    Buffer.alloc(size, 'some text of a line that is as long as lines are\r\n'),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);
}

function splitBytes(bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  return pieces;
}

async function byOurs(pieces: readonly Buffer[]): Promise<number> {
  const parser = new MultipartParser(boundary, { maxParts: 100 });
  let received = 0;
  for await (const piece of Readable.from(pieces)) {
    for (const event of parser.push(piece)) if (event.kind === 'data') received += event.bytes.length;
  }
  if (!parser.finished) throw new Error('the body did not end');
  return received;
}

async function byBusboy(pieces: readonly Buffer[]): Promise<number> {
  const parser = busboy({ headers: { 'content-type': contentType } });
  let received = 0;
  parser.on('file', (_name, file) => {
    file.on('data', (bytes: Buffer) => {
      received += bytes.length;
    });
  });
  await pipeline(Readable.from(pieces), parser);
  return received;
}
