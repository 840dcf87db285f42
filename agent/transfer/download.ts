import fs, { constants, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { systemPath } from '../filesystem/path.ts';
import { writeThrough } from '../http/response-flow.ts';
import { FileRequestError, replyFileError, toFileError } from './file-error.ts';
import { giveTransferBuffer, takeTransferBuffer } from './transfer-buffers.ts';

/** Files and ranges up to this size are sent in one piece. */
const smallBytes = 64 * 1024;

/** Opens a file to send it. @throws errno; {FileRequestError} when it is no regular file */
export async function openToSend(absolutePath: string): Promise<{ file: FileHandle; stat: Stats }> {
  // Without O_NONBLOCK, opening a pipe without a writer would block.
  const file = await open(systemPath(absolutePath), constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    if (stat.isDirectory()) throw new FileRequestError(400, `${absolutePath}: is a directory`);
    if (!stat.isFile()) throw new FileRequestError(400, `${absolutePath}: is not a regular file`);
    return { file, stat };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** `GET /download/{path}`: one whole file or a range of it. */
export async function serveDownload(
  req: IncomingMessage,
  res: ServerResponse,
  absolutePath: string,
  replyError = replyFileError,
): Promise<void> {
  let file: FileHandle | undefined;
  try {
    const opened = await openToSend(absolutePath);
    file = opened.file;
    const { stat } = opened;
    // The kernel makes up the size of a file in sysfs.
    const small = stat.size > 0 && stat.size <= smallBytes ? await readWhole(file, stat.size) : undefined;
    if (small) stat.size = small.length;
    const etag = formatEtag(stat);
    const headers: Record<string, string | number> = {
      'accept-ranges': 'bytes',
      etag,
      'last-modified': stat.mtime.toUTCString(),
    };
    if (noneMatch(req.headers['if-none-match'], etag)) {
      res.writeHead(304, headers).end();
      return;
    }
    headers['content-type'] = 'application/octet-stream';
    headers['content-disposition'] = disposition(path.basename(absolutePath));
    // Files of procfs have size 0 but may have content. Only a read shows that.
    if (stat.size === 0 && (await read(file, Buffer.alloc(1), 1, 0)) > 0) {
      res.writeHead(200, headers);
      if (req.method === 'HEAD') res.end();
      else await send(file, res, 0, Number.POSITIVE_INFINITY);
      return;
    }
    const range = freshRange(req, stat, etag) ? parseRange(req.headers.range, stat.size) : undefined;
    const start = range?.start ?? 0;
    const end = range?.end ?? stat.size;
    if (range) headers['content-range'] = `bytes ${start}-${end - 1}/${stat.size}`;
    headers['content-length'] = end - start;
    res.writeHead(range ? 206 : 200, headers);
    if (req.method === 'HEAD') res.end();
    else if (small) res.end(small.subarray(start, end));
    else await send(file, res, start, end);
  } catch (error) {
    replyError(req, res, toFileError(error, absolutePath));
  } finally {
    await file?.close();
  }
}

/** A value that changes whenever the file's content may have changed. */
function formatEtag(stat: Stats): string {
  return `"${stat.ino.toString(36)}-${stat.size.toString(36)}-${stat.mtimeMs.toString(36)}"`;
}

function noneMatch(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag);
}

/** Whether a `Range` applies: without `If-Range`, or when `If-Range` matches the current content. */
function freshRange(req: IncomingMessage, stat: Stats, etag: string): boolean {
  const condition = req.headers['if-range'] as string | undefined;
  if (condition === undefined) return true;
  if (condition.startsWith('"')) return condition === etag;
  return Date.parse(condition) === Math.floor(stat.mtimeMs / 1000) * 1000;
}

/**
 * The one requested range. Undefined: the whole file, also for several ranges and other units.
 * @throws {FileRequestError} 416 when the range is outside the file
 */
export function parseRange(header: string | undefined, size: number): { start: number; end: number } | undefined {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return undefined;
  const suffix = match[1] === '';
  const start = suffix ? Math.max(size - Number(match[2]), 0) : Number(match[1]);
  const end = suffix || match[2] === '' ? size : Math.min(Number(match[2]) + 1, size);
  if (!suffix && match[2] !== '' && Number(match[2]) < Number(match[1])) return undefined;
  if (start >= size || end <= start) {
    throw new FileRequestError(416, 'range not satisfiable', { 'content-range': `bytes */${size}` });
  }
  return { start, end };
}

/** `attachment` with the name in ASCII, and also in UTF-8 if ASCII cannot represent it (RFC 6266). */
function disposition(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const plain = `attachment; filename="${ascii}"`;
  if (ascii === name) return plain;
  const utf8 = encodeURIComponent(name.toWellFormed()).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return `${plain}; filename*=UTF-8''${utf8}`;
}

/** Sends `[start, end)`, and reads the next piece while the previous one is being sent. */
async function send(file: FileHandle, res: ServerResponse, start: number, end: number): Promise<void> {
  if (end - start <= smallBytes) return sendSmall(file, res, start, end - start);
  const buffers = [takeTransferBuffer(), takeTransferBuffer()];
  let sent = Promise.resolve();
  try {
    let turn = 0;
    for (let at = start; at < end && !res.destroyed; turn ^= 1) {
      const buffer = buffers[turn]!;
      const length = await read(file, buffer, Math.min(buffer.length, end - at), at);
      if (length === 0) {
        // The file has become shorter, so the reply cannot have its announced length.
        if (end !== Number.POSITIVE_INFINITY) res.destroy();
        break;
      }
      at += length;
      await sent;
      sent = writeThrough(res, length === buffer.length ? buffer : buffer.subarray(0, length));
    }
    await sent;
    res.end();
  } finally {
    await sent;
    for (const buffer of buffers) giveTransferBuffer(buffer);
  }
}

/** The content up to `length` bytes. It may be shorter. */
async function readWhole(file: FileHandle, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  for (let count = -1; filled < length && count !== 0; filled += count) {
    count = await read(file, buffer.subarray(filled), length - filled, filled);
  }
  return buffer.subarray(0, filled);
}

async function sendSmall(file: FileHandle, res: ServerResponse, start: number, length: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(length);
  if ((await read(file, buffer, length, start)) === length) res.end(buffer);
  else res.destroy();
}

function read(file: FileHandle, buffer: Buffer, length: number, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(file.fd, buffer, 0, length, at, (error, bytes) => (error ? reject(error) : resolve(bytes)));
  });
}
