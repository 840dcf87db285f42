import { createHash } from 'node:crypto';
import zlib from 'node:zlib';
import type { PushedBlob } from './pushed-image.ts';

/** An entry of a tar archive. It may be one that no tool would write. */
export interface TarEntry {
  name: string;
  /** `0` file, `1` hard link, `2` symbolic link, `3` and `4` devices, `5` folder, `6` pipe. */
  type?: string;
  content?: Buffer | string;
  link?: string;
  mode?: number;
  uid?: number;
  device?: [major: number, minor: number];
  /** PAX records of a header before it. */
  records?: Record<string, string | Buffer>;
  /** Replaces the length of the content. */
  size?: number;
}

export function tar(entries: readonly TarEntry[]): Buffer {
  return Buffer.concat([...entries.flatMap(createBlocks), Buffer.alloc(1024)]);
}

function createBlocks(entry: TarEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? '');
  const blocks = [createHeader(entry, content.length), padded(content)];
  if (!entry.records) return blocks;
  const records = Buffer.concat(
    Object.entries(entry.records).map(([key, value]) => createRecord(key, Buffer.from(value))),
  );
  return [createHeader({ name: 'PaxHeaders/0', type: 'x' }, records.length), padded(records), ...blocks];
}

function createHeader(
  { name, type = '0', link = '', mode, uid = 0, device = [0, 0], size }: TarEntry,
  length: number,
): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, width: number) =>
    header.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  header.write(name.slice(0, 100), 0, 'utf8');
  octal(mode ?? (type === '5' ? 0o755 : 0o644), 100, 8);
  octal(uid, 108, 8);
  octal(uid, 116, 8);
  octal(size ?? length, 124, 12);
  octal(0, 136, 12);
  header.write(' '.repeat(8), 148, 'latin1');
  header.write(type, 156, 'latin1');
  header.write(link.slice(0, 100), 157, 'utf8');
  header.write('ustar\x0000', 257, 'latin1');
  octal(device[0], 329, 8);
  octal(device[1], 337, 8);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}

function createRecord(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length += 1;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

const padded = (content: Buffer) => Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);

const mediaTypes = {
  plain: 'application/vnd.oci.image.layer.v1.tar',
  gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
  docker: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
};

/** A layer in the form that a registry accepts. */
export function createLayer(entries: readonly TarEntry[], kind: keyof typeof mediaTypes = 'gzip'): PushedBlob {
  const bytes = tar(entries);
  const packed = { plain: () => bytes, gzip: () => zlib.gzipSync(bytes), zstd: () => zlib.zstdCompressSync(bytes) };
  return { bytes: packed[kind === 'docker' ? 'gzip' : kind](), mediaType: mediaTypes[kind] };
}

export const sha256 = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
