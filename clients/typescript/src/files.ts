import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type AgentClient, isNotFound } from './agent-client.ts';
import { readArchive } from './archive-reader.ts';
import { type Progress, type SentEntry, walkFolder, writeArchive } from './archive-writer.ts';
import { connectionError, SandboxError } from './errors.ts';
import type { EntryInfo } from './generated/agent.ts';
import { readBytes, readText } from './http-exchange.ts';
import { type LocalFileFacts, writeGivenFile } from './local-file.ts';
import type { RequestOptions } from './request-options.ts';
import { withRetries } from './retries.ts';
import { expiryIn, fileSignature } from './signed-url.ts';

export interface FileInfo {
  name: string;
  /** `other`: sockets, pipes, devices, dangling links. A link has the type of its target. */
  type: 'file' | 'directory' | 'other';
  path: string;
  size: number;
  /** Permission bits. */
  mode: number;
  permissions: string;
  owner: string;
  group: string;
  modifiedAt: Date;
  symlinkTarget: string | null;
}

export interface FileEvent {
  /** Relative to the watched folder. */
  name: string;
  type: 'create' | 'write' | 'remove' | 'rename' | 'chmod';
}

/** The maximum size of a file that is read into memory. */
const defaultMaxFileBytes = 1024 ** 3;

/** A file for `writeMany`. */
export interface NewFile {
  path: string;
  data: string | Uint8Array;
  /** Permission bits, 0o644 by default. */
  mode?: number;
}

/** The numbers of copied entries. */
export type CopyResult = Omit<Progress, 'name'>;

export interface CopyOptions {
  signal?: AbortSignal;
  /** Called after each entry, and during large files. */
  onProgress?: (progress: Progress) => void;
}

export interface DownloadOptions extends Partial<LocalFileFacts> {
  signal?: AbortSignal;
  /** Called with the number of bytes that have arrived. */
  onBytes?: (bytes: number) => void;
}

export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>;

/** Files of the sandbox. Paths are absolute, or relative to the home folder. */
export class Files {
  readonly #agent: AgentClient;
  readonly #token: string;
  readonly #publicUrl: string;

  constructor(agent: AgentClient, token: string, publicUrl: string) {
    this.#agent = agent;
    this.#token = token;
    this.#publicUrl = publicUrl;
  }

  /** Reads a file as text, as bytes, or as a stream. */
  read(path: string, options?: { format?: 'text' }): Promise<string>;
  read(path: string, options: { format: 'bytes' }): Promise<Uint8Array>;
  read(path: string, options: { format: 'stream' }): Promise<Readable>;
  async read(
    path: string,
    { format = 'text' }: { format?: 'text' | 'bytes' | 'stream' } = {},
  ): Promise<string | Uint8Array | Readable> {
    const target = `/download/${encodePath(await this.#absolute(path))}`;
    return withRetries(async () => {
      const response = await this.#agent.request('GET', target);
      if (format === 'stream') return response;
      const maxBytes = this.#agent.limits.maxReplyBytes ?? defaultMaxFileBytes;
      return format === 'bytes' ? readBytes(response, maxBytes) : readText(response, maxBytes);
    });
  }

  /** Writes a file and makes missing folders. Readers see the old file or the whole new one. */
  async write(path: string, content: FileContent): Promise<void> {
    const boundary = `sandbox-platform-${randomUUID()}`;
    const part = (name: string, rest = '') =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${rest}\r\n\r\n`;
    const head = `${part('path')}${path}\r\n${part('file', '; filename="file"')}`;
    const tail = `\r\n--${boundary}--\r\n`;
    const send = async (body: Uint8Array | AsyncIterable<Uint8Array>) => {
      const headers = { 'Content-Type': `multipart/form-data; boundary=${boundary}` };
      const response = await this.#agent.request('POST', '/upload', { headers, body, isAlone: true });
      await readText(response, 64 * 1024);
    };
    if (typeof content === 'string' || content instanceof Uint8Array) {
      const body = Buffer.concat([Buffer.from(head), Buffer.from(content as Uint8Array), Buffer.from(tail)]);
      return withRetries(() => send(body));
    }
    return send(
      (async function* () {
        yield Buffer.from(head);
        yield* content;
        yield Buffer.from(tail);
      })(),
    );
  }

  /** Copies a file of this machine into the sandbox. */
  async upload(localPath: string, path: string): Promise<void> {
    await this.write(path, createReadStream(localPath));
  }

  /**
   * Copies a file of the sandbox to this machine. The local file is replaced when the copy is complete.
   * @param options.mode permission bits of the local file, and `modified`, its time in seconds since 1970
   */
  async download(path: string, localPath: string, options: DownloadOptions = {}): Promise<void> {
    const { signal, onBytes, ...facts } = options;
    let bytes = 0;
    const content = async function* (pieces: AsyncIterable<Uint8Array>) {
      for await (const piece of pieces) {
        signal?.throwIfAborted();
        yield piece;
        bytes += piece.length;
        onBytes?.(bytes);
      }
    };
    await writeGivenFile(localPath, content(this.readStream(path)), facts);
  }

  /** The bytes of a file as they arrive. The connection is closed when the loop over them ends. */
  async *readStream(path: string): AsyncGenerator<Uint8Array, void> {
    const response = await this.read(path, { format: 'stream' });
    try {
      yield* response;
    } catch (error) {
      throw connectionError('The file broke off', error as Error);
    } finally {
      response.destroy();
    }
  }

  /**
   * Writes files with one request, and makes missing folders. Each file is replaced at once, with its mode, but not all
   * of them together: after an error some are written. A link at a path is replaced, not followed.
   */
  async writeMany(files: readonly NewFile[]): Promise<void> {
    const entries: SentEntry[] = [];
    for (const { path: given, ...rest } of files)
      entries.push({ name: (await this.#absolute(given)).slice(1), ...rest });
    await this.uploadEntries('/', entries);
  }

  /**
   * Copies a local folder into a folder of the sandbox, which is made: what is in `localFolder` is then in `path`. Modes,
   * times and symbolic links are kept, links as they are. Files that are there are replaced, others stay. Folders that
   * are there keep their mode. Each file gets its name when it is complete.
   */
  async uploadFolder(localFolder: string, path: string, options: CopyOptions = {}): Promise<CopyResult> {
    if (!(await stat(localFolder)).isDirectory()) throw new Error(`${localFolder} is not a folder`);
    return this.uploadEntries(path, walkFolder(localFolder), options);
  }

  /**
   * Copies a folder of the sandbox into a local folder, as `uploadFolder` does. The sandbox cannot make it
   * write outside of `localFolder`. The umask limits the modes. Set-id bits are removed.
   * @throws {SandboxError} `bad_reply`, `connection_failed`, `copy_failed`; errors of the local files
   */
  async downloadFolder(path: string, localFolder: string, options: CopyOptions = {}): Promise<CopyResult> {
    const progress = newProgress();
    const response = await this.#archive('GET', path, options.signal);
    try {
      await readArchive(response, localFolder, progress, options.onProgress);
    } catch (error) {
      throw this.#agent.toReason(error, options.signal);
    }
    return resultOf(progress);
  }

  /** Sends entries into a folder of the sandbox. @internal */
  async uploadEntries(
    folder: string,
    entries: Iterable<SentEntry> | AsyncIterable<SentEntry>,
    { signal, onProgress }: CopyOptions = {},
  ): Promise<CopyResult> {
    const progress = newProgress();
    await readText(await this.#archive('POST', folder, signal, writeArchive(entries, progress, onProgress)), 64 * 1024);
    return resultOf(progress);
  }

  /** The content of a folder as a tar. @internal */
  readArchive(path: string): Promise<Readable> {
    return this.#archive('GET', path);
  }

  async #archive(method: 'GET' | 'POST', path: string, signal?: AbortSignal, body?: AsyncIterable<Uint8Array>) {
    const target = `/archive?path=${encodeURIComponent(path || '~')}`;
    const send = () => this.#agent.request(method, target, { signal, isAlone: true, ...(body && { body }) });
    try {
      return await (body ? send() : withRetries(send, signal));
    } catch (error) {
      if (!(error instanceof SandboxError) || error.code !== 'unimplemented') throw error;
      const text = 'The agent in the sandbox is of an older release, which copies no folders. Restart the sandbox';
      throw new SandboxError('unimplemented', text, { cause: error });
    }
  }

  /** The entries of a folder. @param options.depth levels, 1 by default */
  async list(path: string, { depth = 1, ...options }: RequestOptions & { depth?: number } = {}): Promise<FileInfo[]> {
    return (await this.#agent.call('Filesystem/ListDir', { path, depth }, options)).entries.map(fileInfo);
  }

  /** The entry at a path. Links are not followed. @throws {SandboxError} `not_found` */
  async stat(path: string, options: RequestOptions = {}): Promise<FileInfo> {
    return fileInfo((await this.#agent.call('Filesystem/Stat', { path }, options)).entry!);
  }

  async exists(path: string, options: RequestOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  /** Makes a folder and its parents. Returns whether it did not exist before. */
  async makeDir(path: string, options: RequestOptions = {}): Promise<boolean> {
    try {
      await this.#agent.call('Filesystem/MakeDir', { path }, options);
      return true;
    } catch (error) {
      if (error instanceof SandboxError && error.code === 'already_exists') return false;
      throw error;
    }
  }

  /** Moves a file or folder, and replaces the destination. */
  async move(source: string, destination: string, options: RequestOptions = {}): Promise<FileInfo> {
    return fileInfo((await this.#agent.call('Filesystem/Move', { source, destination }, options)).entry!);
  }

  /** Removes a file, or a folder with its contents. A missing path is not an error. */
  async remove(path: string, options: RequestOptions = {}): Promise<void> {
    await this.#agent.call('Filesystem/Remove', { path }, options);
  }

  /** Watches a folder for changes. Returns when the watch is active. `close` ends it. */
  async watch(path: string, { recursive = false }: { recursive?: boolean } = {}): Promise<FileWatch> {
    const abort = new AbortController();
    const events = this.#agent.stream('Filesystem/WatchDir', { path, recursive }, abort.signal);
    await events.next();
    return {
      close: () => abort.abort(),
      async *[Symbol.asyncIterator]() {
        try {
          for await (const { filesystem } of events) {
            if (!filesystem) continue;
            yield { name: filesystem.name, type: eventType(filesystem.type) };
          }
        } catch (error) {
          if (!abort.signal.aborted) throw error;
        }
      },
    };
  }

  /** A URL that reads this one file, without the token. */
  async downloadUrl(path: string, { expiresInSeconds }: { expiresInSeconds?: number } = {}): Promise<string> {
    const absolute = await this.#absolute(path);
    const query = fileSignature({ path: absolute, operation: 'read' }, this.#token, expiryIn(expiresInSeconds));
    return `${this.#publicUrl}/download/${encodePath(absolute)}?${query}`;
  }

  /** A URL that writes this one file. Post a form with the field `file` to it. */
  async uploadUrl(path: string, { expiresInSeconds }: { expiresInSeconds?: number } = {}): Promise<string> {
    const absolute = await this.#absolute(path);
    const query = fileSignature({ path: absolute, operation: 'write' }, this.#token, expiryIn(expiresInSeconds));
    query.set('path', absolute);
    return `${this.#publicUrl}/upload?${query}`;
  }

  /** Relative paths begin in the home folder, which is asked from the agent. */
  async #absolute(path: string): Promise<string> {
    if (path.startsWith('/')) return path;
    const home = (await this.stat('~')).path;
    const inner = path.replace(/^~\/?/, '');
    return inner === '' ? home : `${home}/${inner}`;
  }
}

export interface FileWatch extends AsyncIterable<FileEvent> {
  close(): void;
}

function newProgress(): Progress {
  return { name: '', files: 0, folders: 0, links: 0, skipped: 0, bytes: 0 };
}

function resultOf({ name: _, ...result }: Progress): CopyResult {
  return result;
}

function fileInfo(entry: EntryInfo): FileInfo {
  const { name, path, mode, permissions, owner, group, symlinkTarget, type, size, modifiedTime } = entry;
  return {
    ...{ name, path, mode, permissions, owner, group },
    type: type === 'FILE_TYPE_FILE' ? 'file' : type === 'FILE_TYPE_DIRECTORY' ? 'directory' : 'other',
    size: Number(size),
    modifiedAt: new Date(modifiedTime ?? 0),
    symlinkTarget: symlinkTarget ?? null,
  };
}

function eventType(type: string): FileEvent['type'] {
  return type.slice('EVENT_TYPE_'.length).toLowerCase() as FileEvent['type'];
}

function encodePath(absolute: string): string {
  return absolute.slice(1).split('/').map(encodeURIComponent).join('/');
}
