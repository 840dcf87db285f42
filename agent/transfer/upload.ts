import fs from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { systemPath } from '../filesystem/path.ts';
import { FileRequestError, fileErrorOf, replyFileError } from './file-error.ts';
import { boundaryOf, MultipartError, MultipartParser } from './multipart.ts';

const maxPathBytes = 16 * 1024;
/** Bytes gathered for one write; the socket is not read while more than two such wait. */
const writeBytes = 1024 * 1024;

/** What an upload needs to know of where it is allowed. */
export interface UploadRules {
  /** The destination of a signed URL; undefined: the form's `path` says it. */
  path: string | undefined;
  /** The absolute path that a given one means. Throws when it is malformed, or the credentials are not for it. */
  resolve(given: string): string;
  /** Whether content may be taken in before its path is known. */
  pathMayFollow: boolean;
  /** Where content rests whose path is not known yet. */
  waitingFolder: string;
}

/**
 * `POST /upload` (section 4.12): a form with `file` and `path` in either order, streamed to a file beside its
 * destination and moved onto it when it is whole. Replies `uploaded: <path>`.
 */
export async function serveUpload(req: IncomingMessage, res: ServerResponse, rules: UploadRules): Promise<void> {
  let upload: Upload | undefined;
  try {
    const boundary = boundaryOf(req.headers['content-type']);
    if (boundary === undefined) throw new FileRequestError(400, 'expected multipart/form-data with a boundary');
    upload = new Upload(rules);
    const parser = new MultipartParser(boundary);
    for await (const chunk of req) {
      for (const event of parser.push(chunk as Buffer)) {
        if (event.kind === 'part') await upload.beginPart(event.name);
        else if (event.kind === 'data') upload.data(event.bytes);
        else if (event.kind === 'partEnd') await upload.endPart();
      }
      await upload.room();
    }
    if (!parser.finished) throw new FileRequestError(400, 'the form ended before its closing boundary');
    const uploaded = await upload.finish();
    const body = `uploaded: ${uploaded}`;
    res.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'content-length': Buffer.byteLength(body) });
    res.end(body);
  } catch (error) {
    await upload?.discard();
    if (error instanceof MultipartError) replyFileError(req, res, new FileRequestError(400, error.message));
    else replyFileError(req, res, fileErrorOf(error, upload?.destination));
  }
}

/** One upload on its way to disk. */
class Upload {
  destination: string | undefined;
  private readonly rules: UploadRules;
  private part: 'file' | 'path' | 'other' = 'other';
  private pathPieces: Buffer[] = [];
  private file: FileHandle | undefined;
  private temporary: string | undefined;
  private seenFile = false;
  private gathered: Buffer[] = [];
  private gatheredBytes = 0;
  private writing: Promise<void> = Promise.resolve();
  private waitingBytes = 0;
  private failure: unknown;

  constructor(rules: UploadRules) {
    this.rules = rules;
    if (rules.path !== undefined) this.destination = rules.resolve(rules.path);
  }

  async beginPart(name: string): Promise<void> {
    this.part = name === 'file' || name === 'path' ? name : 'other';
    this.pathPieces = [];
    if (this.part !== 'file') return;
    if (this.seenFile) throw new FileRequestError(400, 'more than one file in the form');
    if (this.destination === undefined && !this.rules.pathMayFollow) {
      throw new FileRequestError(401, 'with a signed URL the path must come first, or in the query');
    }
    this.seenFile = true;
    await this.openTemporary();
  }

  data(bytes: Buffer): void {
    if (this.part === 'file') {
      this.gathered.push(bytes);
      this.gatheredBytes += bytes.length;
      if (this.gatheredBytes >= writeBytes) this.write();
    } else if (this.part === 'path') {
      this.pathPieces.push(Buffer.from(bytes));
      if (this.pathPieces.reduce((sum, piece) => sum + piece.length, 0) > maxPathBytes) {
        throw new FileRequestError(400, 'path too long');
      }
    }
  }

  async endPart(): Promise<void> {
    if (this.part === 'file') {
      this.write();
      await this.writing;
      if (this.failure) throw this.failure;
    } else if (this.part === 'path') {
      const given = this.rules.resolve(Buffer.concat(this.pathPieces).toString('utf8'));
      if (this.destination !== undefined && this.destination !== given) {
        throw new FileRequestError(400, 'two different paths in one upload');
      }
      this.destination = given;
    }
    this.part = 'other';
  }

  /** Resolves when the disk has caught up. */
  async room(): Promise<void> {
    if (this.failure) throw this.failure;
    if (this.waitingBytes > writeBytes) await this.writing;
  }

  /** Moves the whole file to its place. Returns the destination. */
  async finish(): Promise<string> {
    if (!this.seenFile || this.file === undefined) throw new FileRequestError(400, 'the form has no file');
    if (this.destination === undefined) throw new FileRequestError(400, 'the form has no path');
    const target = this.target();
    const existing = fs.statSync(systemPath(target), { throwIfNoEntry: false });
    if (existing?.isDirectory()) throw new FileRequestError(400, `${this.destination}: is a directory`);
    fs.mkdirSync(systemPath(path.dirname(target)), { recursive: true });
    if (existing) {
      await this.file.chmod(existing.mode & 0o7777);
      await this.file.chown(existing.uid, existing.gid);
    }
    await this.file.close();
    this.file = undefined;
    fs.renameSync(this.temporary!, systemPath(target));
    this.temporary = undefined;
    return this.destination;
  }

  /** Leaves nothing behind. */
  async discard(): Promise<void> {
    await this.writing;
    await this.file?.close();
    this.file = undefined;
    if (this.temporary !== undefined) fs.rmSync(this.temporary, { force: true });
  }

  /** Where the content really goes: through a link, like any program that writes to it. */
  private target(): string {
    try {
      return fs.realpathSync(this.destination!);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return this.destination!;
      throw error;
    }
  }

  private async openTemporary(): Promise<void> {
    const folder = this.destination === undefined ? this.rules.waitingFolder : path.dirname(this.target());
    fs.mkdirSync(systemPath(folder), { recursive: true });
    this.temporary = path.join(folder, `.upload-${process.hrtime.bigint().toString(36)}`);
    this.file = await open(this.temporary, 'wx', 0o644);
  }

  private write(): void {
    const pieces = this.gathered;
    const bytes = this.gatheredBytes;
    if (bytes === 0) return;
    this.gathered = [];
    this.gatheredBytes = 0;
    this.waitingBytes += bytes;
    this.writing = this.writing.then(async () => {
      try {
        if (this.failure === undefined) await writeAll(this.file!, pieces, bytes);
      } catch (error) {
        this.failure = error;
      } finally {
        this.waitingBytes -= bytes;
      }
    });
  }
}

async function writeAll(file: FileHandle, pieces: Buffer[], bytes: number): Promise<void> {
  const { bytesWritten } = await file.writev(pieces);
  if (bytesWritten === bytes) return;
  // A disk that fills up writes what fits; the rest brings the error.
  let rest = Buffer.concat(pieces).subarray(bytesWritten);
  while (rest.length > 0) rest = rest.subarray((await file.write(rest)).bytesWritten);
}
