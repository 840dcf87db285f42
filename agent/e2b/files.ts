import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Gunzip } from 'node:zlib';
import { nameOfBytes, resolvePath } from '../filesystem/path.ts';
import { remove } from '../filesystem/remove.ts';
import { endEarly } from '../http/end-early.ts';
import { readJson, replyJson } from '../http/json-exchange.ts';
import type { Account } from '../process/identity.ts';
import { openToSend, serveDownload } from '../transfer/download.ts';
import { FileRequestError, toFileError } from '../transfer/file-error.ts';
import { FileWriter } from '../transfer/file-writer.ts';
import { MultipartError, MultipartParser, parseBoundary } from '../transfer/multipart.ts';
import { checkSignature, type FileAccess } from '../transfer/service.ts';
import { StagedFile, writtenPath } from '../transfer/staged-file.ts';
import { giveTransferBuffer, takeTransferBuffer } from '../transfer/transfer-buffers.ts';
import { readMetadata, readMetadataHeaders, writeMetadata } from './file-metadata.ts';
import { findUser } from './users.ts';

const maxParts = 10_000;
const maxSources = 10_000;

/** A written file in a reply. */
interface WrittenFile {
  path: string;
  name: string;
  type: 'file';
  metadata?: Record<string, string>;
}

/**
 * `/files?path=…&username=…`, authorized by the access token or by a signed URL. GET sends a file, with gzip if the
 * client names no other coding. POST writes the body (`application/octet-stream`), or each `file` of a form to its file
 * name, and replies a list of `WrittenFile`. Each file is replaced as a whole, and belongs to the user.
 */
export async function serveFiles(req: IncomingMessage, res: ServerResponse, access: FileAccess): Promise<void> {
  try {
    const { searchParams: query } = new URL(req.url!, 'http://agent');
    const given = query.get('path') ?? undefined;
    if (!access.byHeader) {
      // The texts are signed as they are sent, and one that is not sent is signed as an empty one.
      checkSignature(query, req.method === 'POST' ? 'write' : 'read', [given ?? ''], access.accessToken, '');
    }
    const user = findUser(query.get('username') ?? undefined);
    if (req.method === 'POST') await serveUpload(req, res, user, given);
    else {
      const absolute = resolvePath(given ?? '', user.home);
      if (asksForGzip(req)) await sendCompressed(res, absolute);
      else await serveDownload(req, res, absolute, replyFailure);
    }
  } catch (error) {
    replyFailure(req, res, toFileError(error instanceof MultipartError ? toRequestError(error) : error));
  }
}

/** `POST /files/compose`: joins files to one and removes them. Replies the `WrittenFile`. */
export async function serveCompose(req: IncomingMessage, res: ServerResponse): Promise<void> {
  try {
    const { sources, destination, username } = readComposition(await readJson(req));
    const user = findUser(username);
    const from = sources.map((source) => resolvePath(source, user.home, 'source_paths'));
    const to = resolvePath(destination, user.home, 'destination');
    const staged = await stage(to, user);
    try {
      for (const source of from) await appendFile(staged, source);
      await staged.moveTo(to);
    } catch (error) {
      await staged.discard();
      throw error;
    }
    for (const source of from) if (source !== to) await remove(source);
    replyJson(req, res, 200, describe(to));
  } catch (error) {
    // What `readJson` refuses.
    const isRefused = error instanceof SyntaxError || error instanceof TypeError;
    replyFailure(req, res, toFileError(isRefused ? toRequestError(error) : error));
  }
}

function toRequestError(error: Error): FileRequestError {
  return new FileRequestError(400, error.message);
}

/** Replies `{"code": <status>, "message": …}`, even if the request was not read completely. */
function replyFailure(req: IncomingMessage, res: ServerResponse, error: FileRequestError): void {
  const body = JSON.stringify({ code: error.status, message: error.message });
  endEarly(req, res, error.status, { ...error.headers, 'content-type': 'application/json' }, body);
}

/**
 * Whether the client names gzip and nothing else. Libraries name every coding that they know, and compression is slower
 * than most connections.
 */
function asksForGzip({ headers }: IncomingMessage): boolean {
  return headers['accept-encoding']?.trim().toLowerCase() === 'gzip' && headers.range === undefined;
}

async function sendCompressed(res: ServerResponse, absolutePath: string): Promise<void> {
  const { createGzip } = await import('node:zlib');
  let file: FileHandle;
  try {
    file = (await openToSend(absolutePath)).file;
  } catch (error) {
    throw toFileError(error, absolutePath);
  }
  res.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-encoding': 'gzip',
    vary: 'Accept-Encoding',
  });
  // The reply ends halfway if the client leaves or the file cannot be read any more.
  await pipeline(file.createReadStream(), createGzip(), res).catch(() => res.destroy());
}

async function serveUpload(
  req: IncomingMessage,
  res: ServerResponse,
  user: Account,
  given: string | undefined,
): Promise<void> {
  const metadata = readMetadataHeaders(req);
  const body = await openBody(req);
  // The reply of a failure drops the rest of the body, for which the request has to stay readable.
  const content: AsyncIterable<Buffer> = body.iterator({ destroyOnReturn: false });
  const form = parseBoundary(req.headers['content-type']);
  const upload = new Upload(user, metadata);
  try {
    if (form !== undefined) await readForm(content, form, (name) => given ?? name, upload);
    else if (/^application\/octet-stream\s*(;|$)/i.test(req.headers['content-type'] ?? '')) {
      if (given === undefined) throw new FileRequestError(400, 'path is required for application/octet-stream');
      await upload.begin(given);
      for await (const chunk of content) await upload.add(chunk);
      await upload.end();
    } else {
      throw new FileRequestError(400, 'expected multipart/form-data with a boundary, or application/octet-stream');
    }
  } catch (error) {
    await upload.discard();
    if (body !== req) {
      req.unpipe();
      body.destroy();
    }
    throw error instanceof Error && 'code' in error && isBrokenGzip(error.code)
      ? new FileRequestError(400, 'the body is not gzip')
      : toFileError(error, upload.destination);
  }
  replyJson(req, res, 200, upload.written);
}

/** The body as the client had it before its `Content-Encoding`. @throws {FileRequestError} 400 for other codings */
async function openBody(req: IncomingMessage): Promise<IncomingMessage | Gunzip> {
  const coding = req.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (coding === 'identity') return req;
  if (coding !== 'gzip') throw new FileRequestError(400, `unknown Content-Encoding ${coding}: use gzip`);
  const { createGunzip } = await import('node:zlib');
  const plain = createGunzip();
  // An error of the request has to end the reader of the plain bytes.
  req.on('error', (error) => plain.destroy(error));
  // A short body may be broken before anybody reads. The reader gets the error when it does.
  plain.on('error', () => {});
  return req.pipe(plain);
}

function isBrokenGzip(code: unknown): boolean {
  return code === 'Z_DATA_ERROR' || code === 'Z_BUF_ERROR';
}

/** Writes the `file` parts of a form. @param place the path of a part by its file name */
async function readForm(
  content: AsyncIterable<Buffer>,
  boundary: string,
  place: (name: string | undefined) => string | undefined,
  upload: Upload,
): Promise<void> {
  const parser = new MultipartParser(boundary, { maxParts });
  for await (const chunk of content) {
    for (const event of parser.push(chunk)) {
      if (event.kind === 'part' && event.name === 'file') {
        const given = place(event.filename);
        if (given === undefined) throw new FileRequestError(400, 'a file of the form has no name');
        await upload.begin(given);
      } else if (event.kind === 'data' && upload.isOpen) await upload.add(event.bytes);
      else if (event.kind === 'partEnd' && upload.isOpen) await upload.end();
    }
  }
  if (!parser.finished) throw new FileRequestError(400, 'the form ended before its closing boundary');
}

/** The files of one request, one after the other. */
class Upload {
  readonly written: WrittenFile[] = [];
  destination: string | undefined;
  readonly #user: Account;
  readonly #metadata: Map<string, string>;
  readonly #paths = new Set<string>();
  #staged: StagedFile | undefined;
  #writer: FileWriter | undefined;

  constructor(user: Account, metadata: Map<string, string>) {
    this.#user = user;
    this.#metadata = metadata;
  }

  get isOpen(): boolean {
    return this.#staged !== undefined;
  }

  async begin(given: string): Promise<void> {
    this.destination = resolvePath(given, this.#user.home);
    if (this.#paths.has(this.destination)) {
      throw new FileRequestError(400, `${this.destination}: given twice in one upload`);
    }
    this.#paths.add(this.destination);
    this.#staged = await stage(this.destination, this.#user);
    this.#writer = new FileWriter(this.#staged.file);
  }

  async add(bytes: Buffer): Promise<void> {
    this.#writer!.add(bytes);
    if (this.#writer!.isBehind) await this.#writer!.caughtUp();
  }

  async end(): Promise<void> {
    await this.#writer!.finish();
    writeMetadata(this.#staged!.file, this.#metadata);
    await this.#staged!.moveTo(this.destination!);
    this.#staged = undefined;
    this.written.push(describe(this.destination!));
  }

  async discard(): Promise<void> {
    await this.#writer?.abandon();
    await this.#staged?.discard();
    this.#staged = undefined;
  }
}

async function stage(destination: string, { uid, gid }: Account): Promise<StagedFile> {
  return StagedFile.create(path.dirname(nameOfBytes(await writtenPath(destination))), { uid, gid });
}

function describe(absolutePath: string): WrittenFile {
  const metadata = readMetadata(absolutePath);
  return { path: absolutePath, name: path.basename(absolutePath), type: 'file', ...(metadata && { metadata }) };
}

/** @throws {FileRequestError} 400 */
function readComposition(body: unknown): { sources: string[]; destination: string; username: string | undefined } {
  const { source_paths: sources, destination, username } = (body ?? {}) as Record<string, unknown>;
  const isList = Array.isArray(sources) && sources.every((source) => typeof source === 'string');
  if (!isList || sources.length === 0 || sources.length > maxSources) {
    throw new FileRequestError(400, `source_paths must be a list of 1 to ${maxSources} paths`);
  }
  if (typeof destination !== 'string') throw new FileRequestError(400, 'destination must be a path');
  if (username !== undefined && typeof username !== 'string') {
    throw new FileRequestError(400, 'username must be a name');
  }
  return { sources, destination, username };
}

async function appendFile({ file: target }: StagedFile, source: string): Promise<void> {
  const buffer = takeTransferBuffer();
  let opened: FileHandle | undefined;
  try {
    opened = (await openToSend(source)).file;
    for (;;) {
      const { bytesRead } = await opened.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return;
      for (let at = 0; at < bytesRead; ) at += (await target.write(buffer, at, bytesRead - at)).bytesWritten;
    }
  } catch (error) {
    throw toFileError(error, source);
  } finally {
    await opened?.close();
    giveTransferBuffer(buffer);
  }
}
