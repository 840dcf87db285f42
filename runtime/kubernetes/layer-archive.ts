import { Transform, type TransformCallback } from 'node:stream';

/** Limits for the content of a layer's archive. */
export interface ArchiveLimits {
  maxFiles: number;
  /**
   * The size of all files together. It includes the holes of sparse files, because nodes write them when they unpack.
   */
  maxBytes: number;
  /** The folders of `/` that may be in the archive. Null: all except those of the kernel and the platform. */
  folders: ReadonlySet<string> | null;
}

/** The archive has content that the platform's own programs never write, so it may be an attack. */
export class ArchiveRefusedError extends Error {
  override name = 'ArchiveRefusedError';
}

const block = 512;
const maxRecords = 4 * 1024 * 1024;
const maxPath = 3800;
const maxId = 0xfffffffe;
const closedFolder = /^(\.platform.*|dev|proc|sys)$/s;
const kinds = new Set(['0', '1', '2', '5', '6']);
const knownRecord = /^(path|linkpath|size|uid|gid|mtime|GNU\.sparse\.(major|minor|name|realsize)|SCHILY\.xattr\..+)$/;
const knownAttribute = /^SCHILY\.xattr\.(user\..+|security\.capability|system\.posix_acl_(access|default))$/;

interface Entry {
  name: string;
  kind: string;
  size: number;
  link: string;
  uid: number;
  gid: number;
}

/**
 * Passes on a tar archive that comes from a pod, and refuses it at the first entry that a layer of an image may not
 * have. It bounds the number and the size of files and rejects devices and names outside of the allowed folders.
 */
export class LayerArchive extends Transform {
  readonly #limits: ArchiveLimits;
  #header = Buffer.alloc(0);
  /** The bytes of the current entry that are still to come, including the padding of its last block. */
  #content = 0;
  /** The extended header records (pax) that are being read. Null: the bytes that pass are the content of a file. */
  #records: Buffer[] | null = null;
  #recordsSize = 0;
  #extra = new Map<string, string>();
  #files = 0;
  #bytes = 0;
  #endBlocks = 0;

  constructor(limits: ArchiveLimits) {
    super();
    this.#limits = limits;
  }

  /** The size of the files in the archive, including holes. */
  get bytes(): number {
    return this.#bytes;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      this.#read(chunk);
      done(null, chunk);
    } catch (error) {
      done(error as Error);
    }
  }

  override _flush(done: TransformCallback): void {
    const isWhole = this.#endBlocks >= 2 && this.#header.length === 0 && this.#content === 0;
    // This is no refusal, because the connection to the pod may have been lost.
    done(isWhole ? null : new Error('the archive was cut off'));
  }

  #read(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#content > 0) {
        const part = chunk.subarray(at, at + this.#content);
        this.#records?.push(part);
        this.#content -= part.length;
        at += part.length;
        if (this.#content === 0 && this.#records) this.#endRecords();
        continue;
      }
      const part = chunk.subarray(at, at + block - this.#header.length);
      this.#header = Buffer.concat([this.#header, part]);
      at += part.length;
      if (this.#header.length < block) return;
      const header = this.#header;
      this.#header = Buffer.alloc(0);
      this.#begin(header);
    }
  }

  #begin(header: Buffer): void {
    if (header.every((byte) => byte === 0)) {
      this.#endBlocks += 1;
      return;
    }
    if (this.#endBlocks > 0) refuse('something after its end');
    const kind = header.toString('latin1', 156, 157);
    requireSum(header);
    const size = numberIn(header, 124, 12);
    if (kind === 'x') {
      if (this.#recordsSize > 0 || size === 0 || size > maxRecords) refuse('records that cannot be');
      this.#records = [];
      this.#recordsSize = size;
    } else {
      this.#content = this.#add(this.#parseEntry(header, kind, size));
      this.#extra = new Map();
      this.#recordsSize = 0;
      return;
    }
    this.#content = padded(size);
  }

  #endRecords(): void {
    this.#extra = recordsIn(Buffer.concat(this.#records!).subarray(0, this.#recordsSize).toString('latin1'));
    this.#records = null;
  }

  #parseEntry(header: Buffer, kind: string, size: number): Entry {
    const extra = this.#extra;
    const text = (at: number, length: number) => header.toString('latin1', at, at + length).replace(/\0.*$/s, '');
    const [prefix, name] = [text(345, 155), text(0, 100)];
    const whole = (key: string, other: number) => {
      const value = extra.get(key);
      if (value !== undefined && !/^\d{1,15}$/.test(value)) refuse(`a ${key} that is no number`);
      return value === undefined ? other : Number(value);
    };
    return {
      name: extra.get('GNU.sparse.name') ?? extra.get('path') ?? (prefix === '' ? name : `${prefix}/${name}`),
      kind,
      size: whole('size', size),
      link: extra.get('linkpath') ?? text(157, 100),
      uid: whole('uid', numberIn(header, 108, 8)),
      gid: whole('gid', numberIn(header, 116, 8)),
    };
  }

  /** @returns how many bytes of content follow, including the padding of the last block */
  #add({ name, kind, size, link, uid, gid }: Entry): number {
    if (!kinds.has(kind)) refuse('an entry of a kind that no layer has');
    this.#files += 1;
    if (this.#files > this.#limits.maxFiles) refuse(`more than ${this.#limits.maxFiles} files`);
    this.#requireName(name, kind);
    if (kind === '1') this.#requireName(link, kind);
    if (uid > maxId || gid > maxId) refuse('an owner that cannot be');
    if (kind !== '0') {
      if (size !== 0 || this.#extra.has('GNU.sparse.major')) refuse('content where there is none');
      return 0;
    }
    const holes = this.#extra.get('GNU.sparse.realsize');
    if (holes !== undefined && !/^\d{1,15}$/.test(holes)) refuse('a size that is no number');
    if (this.#extra.has('GNU.sparse.major') !== (holes !== undefined)) refuse('a sparse file that cannot be read');
    // `size` includes the map of a sparse file, which may be larger than the file itself.
    this.#bytes += Math.max(size, Number(holes ?? 0));
    if (this.#bytes > this.#limits.maxBytes) refuse('files that are larger than its disk, holes included');
    return padded(size);
  }

  #requireName(name: string, kind: string): void {
    const parts = name.replace(/\/$/, '').split('/');
    const isPlain = parts.every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));
    if (!isPlain || name.length > maxPath) refuse(`a name that cannot be: ${shown(name)}`);
    const { folders } = this.#limits;
    const isOpen = folders ? folders.has(parts[0]!) : !closedFolder.test(parts[0]!);
    if (!isOpen) refuse(`a name outside of its folders: ${shown(name)}`);
    const marks = parts.findIndex((part) => part.startsWith('.wh.'));
    if (marks < 0) return;
    const isDeletion = marks === parts.length - 1 && kind === '0' && !/^\.wh\.(\.wh\..*|\.{0,2})$/s.test(parts[marks]!);
    // These entries delete files of lower layers, so a whole image may not contain them.
    if (!isDeletion || !folders) refuse(`a name that images keep for themselves: ${shown(name)}`);
  }
}

/** Reads records of the form `<length> <key>=<value>\n`. */
function recordsIn(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (let at = 0; at < text.length; ) {
    const digits = /^(\d{1,8}) /.exec(text.slice(at, at + 9))?.[1];
    const end = at + Number(digits ?? 0);
    const equals = text.indexOf('=', at);
    const isWhole = digits !== undefined && end <= text.length && text[end - 1] === '\n' && equals > at && equals < end;
    if (!isWhole) refuse('records that cannot be read');
    const key = text.slice(at + digits!.length + 1, equals);
    if (!knownRecord.test(key) || found.has(key)) refuse(`a record that no layer has: ${shown(key)}`);
    if (key.startsWith('SCHILY.') && !knownAttribute.test(key)) refuse(`an attribute of the host: ${shown(key)}`);
    found.set(key, text.slice(equals + 1, end - 1));
    at = end;
  }
  return found;
}

function requireSum(header: Buffer): void {
  const expected = numberIn(header, 148, 8);
  let sum = 8 * 0x20;
  for (const [at, byte] of header.entries()) if (at < 148 || at >= 156) sum += byte;
  if (sum !== expected || header.toString('latin1', 257, 265) !== 'ustar\x0000') refuse('something that is no archive');
}

function numberIn(header: Buffer, at: number, length: number): number {
  const digits = /^ *([0-7]*)[ \0]*$/.exec(header.toString('latin1', at, at + length))?.[1];
  if (digits === undefined) refuse('a number that cannot be read');
  return digits === '' ? 0 : Number.parseInt(digits!, 8);
}

const padded = (size: number) => Math.ceil(size / block) * block;

function refuse(what: string): never {
  throw new ArchiveRefusedError(what);
}

/** Makes a name printable for a message, because names may contain any bytes. */
function shown(name: string): string {
  const text = name.replace(/[^\x20-\x7e]|\\/g, (sign) => `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return text.length > 200 ? `${text.slice(0, 197)}...` : text;
}
