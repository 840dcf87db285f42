import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { nameOfBytes } from '../filesystem/path.ts';
import { FileRequestError, replyFileError, toFileError } from './file-error.ts';
import { FileWriter } from './file-writer.ts';
import { MultipartError, MultipartParser, parseBoundary } from './multipart.ts';
import { StagedFile, writtenPath } from './staged-file.ts';

const maxPathBytes = 16 * 1024;
const maxParts = 100;
/** The permissions of an upload. */
export interface UploadRules {
  /** The destination of a signed URL. Undefined: the form has a `path`. */
  path: string | undefined;
  /** Resolves a given path to an absolute one. Throws when it is malformed, or the credentials do not allow it. */
  resolve(given: string): string;
  /** Limits content until its path, which its signature is for, is known. Null: the caller is already authorized. */
  unverified: UnverifiedContent | null;
  /** The folder of content until its path is known. */
  waitingFolder: string;
}

/**
 * The total content of all uploads that may wait for their path. A client without a valid signature can begin an upload
 * and withhold its path.
 */
const maxUnverifiedBytes = 64 * 1024 * 1024;

/** Counts content that waits for the path of its signature. */
export class UnverifiedContent {
  #bytes = 0;

  /** @throws {FileRequestError} 413 when too much would wait */
  add(bytes: number): void {
    if (this.#bytes + bytes > maxUnverifiedBytes) {
      const text = 'too much content before its path: with a signed URL put the path first, or into the query';
      throw new FileRequestError(413, text);
    }
    this.#bytes += bytes;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * `POST /upload`: a form with `file` and `path` in either order. It is streamed to disk and moved to its place when it
 * is complete. Replies `uploaded: <path>`.
 */
export async function serveUpload(req: IncomingMessage, res: ServerResponse, rules: UploadRules): Promise<void> {
  let upload: Upload | undefined;
  try {
    const boundary = parseBoundary(req.headers['content-type']);
    if (boundary === undefined) throw new FileRequestError(400, 'expected multipart/form-data with a boundary');
    upload = new Upload(rules);
    const parser = new MultipartParser(boundary, { maxParts });
    await readForm(req, parser, upload);
    if (!parser.finished) throw new FileRequestError(400, 'the form ended before its closing boundary');
    const body = `uploaded: ${await upload.finish()}`;
    res.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'content-length': Buffer.byteLength(body) });
    res.end(body);
  } catch (error) {
    await upload?.discard();
    const known = error instanceof MultipartError ? new FileRequestError(400, error.message) : error;
    replyFileError(req, res, toFileError(known, upload?.destination));
  }
}

/** Passes the body to the parser while it arrives. Waits only when the upload has to wait. */
function readForm(req: IncomingMessage, parser: MultipartParser, upload: Upload): Promise<void> {
  return new Promise((resolve, reject) => {
    let busy = false;
    let ended = false;
    const fail = (error: unknown) => {
      req.off('data', onData);
      reject(error);
    };
    const onData = async (chunk: Buffer) => {
      try {
        for (const event of parser.push(chunk)) {
          const wait = upload.take(event);
          if (!wait) continue;
          busy = true;
          req.pause();
          await wait;
        }
        if (upload.isBehind) {
          busy = true;
          req.pause();
          await upload.caughtUp();
        }
        if (!busy) return;
        busy = false;
        if (ended) resolve();
        else req.resume();
      } catch (error) {
        fail(error);
      }
    };
    req.on('data', onData);
    req.on('end', () => {
      ended = true;
      if (!busy) resolve();
    });
    req.on('error', () => fail(new FileRequestError(400, 'the client left')));
  });
}

/** One upload on its way to disk. */
class Upload {
  destination: string | undefined;
  readonly #rules: UploadRules;
  #part: 'file' | 'path' | 'other' = 'other';
  #pathText: Buffer = Buffer.alloc(0);
  #staged: StagedFile | undefined;
  #writer: FileWriter | undefined;
  #unverifiedBytes = 0;

  constructor(rules: UploadRules) {
    this.#rules = rules;
    if (rules.path !== undefined) this.destination = rules.resolve(rules.path);
  }

  /** Processes an event of the parser. Returns a promise if no more events may come before it has settled. */
  take(event: { kind: string; name?: string; bytes?: Buffer }): Promise<void> | undefined {
    if (event.kind === 'part') return this.#beginPart(event.name!);
    if (event.kind === 'data') this.#data(event.bytes!);
    else if (event.kind === 'partEnd') return this.#endPart();
    return undefined;
  }

  /** More bytes were gathered than may wait in memory. */
  get isBehind(): boolean {
    return this.#writer?.isBehind ?? false;
  }

  async caughtUp(): Promise<void> {
    await this.#writer?.caughtUp();
  }

  /** Moves the complete file to its place. Returns the destination. */
  async finish(): Promise<string> {
    if (!this.#staged) throw new FileRequestError(400, 'the form has no file');
    if (this.destination === undefined) throw new FileRequestError(400, 'the form has no path');
    await this.#staged.moveTo(this.destination);
    this.#staged = undefined;
    return this.destination;
  }

  async discard(): Promise<void> {
    await this.#writer?.abandon();
    await this.#staged?.discard();
    this.#staged = undefined;
    this.#verified();
  }

  /** The content of this upload no longer waits for its path. */
  #verified(): void {
    this.#rules.unverified?.remove(this.#unverifiedBytes);
    this.#unverifiedBytes = 0;
  }

  #beginPart(name: string): Promise<void> | undefined {
    this.#part = name === 'file' || name === 'path' ? name : 'other';
    this.#pathText = Buffer.alloc(0);
    if (this.#part !== 'file') return undefined;
    if (this.#staged) throw new FileRequestError(400, 'more than one file in the form');
    return this.#stage();
  }

  async #stage(): Promise<void> {
    const { destination } = this;
    const folder =
      destination === undefined ? this.#rules.waitingFolder : path.dirname(nameOfBytes(await writtenPath(destination)));
    this.#staged = await StagedFile.create(folder);
    this.#writer = new FileWriter(this.#staged.file);
  }

  #data(bytes: Buffer): void {
    if (this.#part === 'path') {
      this.#pathText = Buffer.concat([this.#pathText, bytes]);
      if (this.#pathText.length > maxPathBytes) throw new FileRequestError(400, 'path too long');
    } else if (this.#part === 'file') {
      if (this.destination === undefined && this.#rules.unverified) {
        this.#rules.unverified.add(bytes.length);
        this.#unverifiedBytes += bytes.length;
      }
      this.#writer!.add(bytes);
    }
  }

  async #endPart(): Promise<void> {
    if (this.#part === 'file') {
      await this.#writer!.finish();
    } else if (this.#part === 'path') {
      const given = this.#rules.resolve(this.#pathText.toString('utf8'));
      if (this.destination !== undefined && this.destination !== given) {
        throw new FileRequestError(400, 'two different paths in one upload');
      }
      this.destination = given;
      this.#verified();
    }
    this.#part = 'other';
  }
}
