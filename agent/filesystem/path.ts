import fs from 'node:fs';
import path from 'node:path';
import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';
import { callsMayHang } from './hanging-mounts.ts';

/**
 * In names that are not UTF-8, each stray byte b becomes the code point U+F700 + b (U+F780 to U+F7FF, private use). So
 * every name is a valid string, and is converted back to the same bytes when a client sends it.
 */
const strayBase = 0xf700;
const strayPattern = /[\uf780-\uf7ff]/;

/** The text of a name's bytes. */
export function nameOfBytes(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (!text.includes('\ufffd')) return text;
  let out = '';
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes, at);
    if (length > 0) out += bytes.toString('utf8', at, at + length);
    else out += String.fromCharCode(strayBase + bytes[at]!);
    at += length || 1;
  }
  return out;
}

/** The form of a path for system calls: the text itself, or its bytes if it is not UTF-8. */
export function systemPath(text: string): string | Buffer {
  if (!strayPattern.test(text)) return text;
  const parts: Buffer[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (code >= 0xf780 && code <= 0xf7ff) parts.push(Buffer.from([code - strayBase]));
    else parts.push(Buffer.from(character));
  }
  return Buffer.concat(parts);
}

/** The length of the valid UTF-8 sequence at `at`, or 0. */
function sequenceLength(bytes: Buffer, at: number): number {
  const lead = bytes[at]!;
  const length =
    lead < 0x80
      ? 1
      : lead >= 0xc2 && lead < 0xe0
        ? 2
        : lead >= 0xe0 && lead < 0xf0
          ? 3
          : lead >= 0xf0 && lead < 0xf5
            ? 4
            : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  // The decoder checks the other rules: overlong forms, surrogates.
  return bytes.toString('utf8', at, at + length).includes('\ufffd') && !isReplacement(bytes, at) ? 0 : length;
}

function isReplacement(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbf && bytes[at + 2] === 0xbd;
}

/**
 * The absolute path of a client's path: `~` and relative paths start at `home`, and `.` and `..` are resolved as text.
 * @throws {ConnectError} `invalid_argument` for an empty path, or one with a NUL
 */
export function resolvePath(given: string, home: string, field = 'path'): string {
  if (given === '') throw new ConnectError(`${field} must not be empty`, Code.InvalidArgument);
  if (given.includes('\0')) throw new ConnectError(`${field} must not contain NUL`, Code.InvalidArgument);
  if (given === '~') return home;
  if (given.startsWith('~/')) return path.join(home, given.slice(2)).replace(/(?<=.)\/$/, '');
  return path.resolve(home, given);
}

/**
 * stat(2), which follows links.
 * @throws errno
 */
export async function statPath(absolutePath: string): Promise<fs.Stats> {
  const target = systemPath(absolutePath);
  return callsMayHang() ? fs.promises.stat(target) : fs.statSync(target);
}
