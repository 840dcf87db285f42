import fs from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { isName } from '../archive-names.ts';
import type { Progress } from '../archive-writer.ts';
import type { CopyOptions } from '../files.ts';
import { printableLine, printableOutput } from '../printable.ts';
import { Sandbox } from '../sandbox.ts';
import { type CliCommand, print, printJson, UsageError } from './command.ts';
import { untilInterrupted } from './interrupts.ts';
import { parsePlace } from './place.ts';
import { ProgressLine } from './progress.ts';

export const copy: CliCommand = {
  name: 'cp',
  maxWords: 2,
  usage: 'FROM TO',
  summary: 'copy a file or a folder; one side is SANDBOX:PATH, and the other may be - for standard input or output',
  async run({ words, connection, json }) {
    const [from, to] = words.map(parsePlace);
    if (!from || !to || words.length !== 2 || (from.sandbox === null) === (to.sandbox === null)) {
      throw new UsageError('Give two paths, one of them in a sandbox: SANDBOX:PATH');
    }
    if (from.path === '-' && from.sandbox === null && /(^|\/)$/.test(to.path)) {
      throw new UsageError('Name the file that standard input is written to');
    }
    const sandbox = await Sandbox.get((from.sandbox ?? to.sandbox)!, connection);
    const done = await untilInterrupted((signal) => {
      const copied = new Copy(sandbox, signal, json);
      return from.sandbox === null ? copied.upload(from.path, to.path) : copied.download(from.path, to.path);
    });
    if (done) return 0;
    process.stderr.write('sandbox-platform: interrupted\n');
    return 130;
  },
};

class Copy {
  readonly #sandbox: Sandbox;
  readonly #signal: AbortSignal;
  readonly #json: boolean;
  readonly #line = new ProgressLine();
  /** For `json`. */
  #copied: string[] = [];

  constructor(sandbox: Sandbox, signal: AbortSignal, json: boolean) {
    this.#sandbox = sandbox;
    this.#signal = signal;
    this.#json = json;
  }

  /** As with `cp`, a file that is copied to a folder, or to a name that ends with a slash, keeps its name. */
  async upload(from: string, to: string): Promise<true> {
    const { files } = this.#sandbox;
    if (from === '-') {
      await files.write(to, process.stdin);
      return true;
    }
    const source = await fs.stat(from);
    const found = to === '' || to.endsWith('/') ? null : await files.stat(to).catch(() => null);
    const keepsName = to === '' || to.endsWith('/') || found?.type === 'directory';
    const target = keepsName ? path.posix.join(to || '~', path.basename(path.resolve(from))) : to;
    if (source.isDirectory()) {
      await this.#run(target, path.posix, (options) => files.uploadFolder(from, target, options));
    } else if (!source.isFile() || (found?.symlinkTarget && !keepsName)) {
      // A pipe has no size before its end. A link at the target is followed, as with `cp`.
      await files.upload(from, target);
      this.#report(target, 0);
    } else {
      const entry = { name: path.posix.basename(target), local: await fs.realpath(from) };
      const folder = path.posix.dirname(target);
      await this.#run(folder, path.posix, (options) => files.uploadEntries(folder, [entry], options));
    }
    return true;
  }

  /**
   * The agent's replies are hostile: their names could lead out of the target. So the name of the copy comes from the
   * caller's path, and not from the sandbox.
   */
  async download(from: string, to: string): Promise<true> {
    const { files } = this.#sandbox;
    const source = await files.stat(from || '~');
    const isFolder = source.type === 'directory';
    if (to === '-') {
      if (isFolder && process.stdout.isTTY)
        throw new UsageError('A folder is written as a tar, which is not for a terminal');
      await writeOut(isFolder ? await files.readArchive(from) : files.readStream(source.path), this.#signal);
      return true;
    }
    const isFolderHere = await fs.stat(to).then(
      (found) => found.isDirectory(),
      () => to.endsWith('/'),
    );
    const target = isFolderHere ? path.join(to, readName(from) ?? this.#sandbox.id) : to;
    if (isFolder) {
      await this.#run(target, path, (options) => files.downloadFolder(from, target, options));
      return true;
    }
    await fs.mkdir(path.dirname(target), { recursive: true });
    // The mode and time of a link are not those of the file behind it.
    const { modifiedAt } = source;
    const facts = { mode: source.mode & 0o777, ...(modifiedAt.getTime() && { modified: modifiedAt }) };
    await files.download(source.path, target, {
      ...(source.symlinkTarget === null && facts),
      signal: this.#signal,
      onBytes: (bytes) => this.#line.show({ files: 0, bytes }),
    });
    this.#report(target, 0);
    return true;
  }

  /** Copies entries into a folder, and tells what was copied. */
  async #run(
    folder: string,
    { join }: Pick<typeof path, 'join'>,
    work: (options: CopyOptions) => Promise<{ skipped: number }>,
  ): Promise<void> {
    let count = 0;
    const onProgress = (progress: Progress) => {
      this.#line.show(progress);
      // Large files are reported several times.
      if (progress.files + progress.links === count) return;
      count = progress.files + progress.links;
      this.#tell(join(folder, progress.name));
    };
    const { skipped } = await work({ signal: this.#signal, onProgress }).finally(() => this.#line.clear());
    this.#end(skipped);
  }

  #report(target: string, skipped: number): void {
    this.#line.clear();
    this.#tell(target);
    this.#end(skipped);
  }

  #tell(name: string): void {
    if (this.#json) this.#copied.push(name);
    else {
      this.#line.clear();
      print(printableLine(name));
    }
  }

  #end(skipped: number): void {
    if (this.#json) printJson({ copied: this.#copied, skipped });
    else if (skipped > 0) process.stderr.write(`Not copied: ${skipped} sockets, pipes or devices\n`);
  }
}

/** Writes to standard output: unchanged to a file or a program, printable to a terminal. */
async function writeOut(content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  const { stdout } = process;
  const decoder = new StringDecoder();
  const shown = async function* () {
    for await (const piece of content) yield printableOutput(decoder.write(Buffer.from(piece)));
    yield printableOutput(decoder.end());
  };
  try {
    await pipeline(stdout.isTTY ? shown() : content, stdout, { end: false, signal });
  } catch (error) {
    // The reader, such as `head`, has enough.
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  }
}

/** The last name of a path. Null: it has none, such as `~` or `/`. */
function readName(source: string): string | null {
  const name = path.posix.basename(source);
  return name !== '~' && isName(name) ? name : null;
}
