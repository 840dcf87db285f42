import { type CommandHandle, type FileInfo, type Sandbox, SandboxError } from '@sandbox-platform/client';
import type { Experimental_SandboxProcess, Experimental_SandboxSession } from 'ai';

/** The maximum unread output of a process, in bytes. A process that writes more waits for its reader. */
const bufferedBytes = 8 * 1024 * 1024;

/** A sandbox for `experimental_sandbox` of the AI SDK. Relative paths begin in the home folder. */
export function sandboxSession(sandbox: Sandbox): Experimental_SandboxSession {
  const { files, commands } = sandbox;

  async function readBytes(path: string, signal?: AbortSignal): Promise<Uint8Array | null> {
    signal?.throwIfAborted();
    return orNull(files.read(path, { format: 'bytes' }));
  }

  /** A symbolic link is followed: the client has the type of its target, and its own size. */
  async function followedSize(path: string): Promise<number | null> {
    const { exitCode, stdout } = await commands.run(['stat', '--dereference', '--format=%s', '--', path]);
    return exitCode === 0 ? Number(stdout) : null;
  }

  return {
    description:
      'An isolated Linux sandbox with a shell and root rights. Commands start in the home folder, and relative paths ' +
      `begin there. A server on port N of the sandbox has the host name N-${sandbox.domain}.`,

    run: async ({ command, workingDirectory, env, abortSignal }) => {
      const options = { cwd: workingDirectory, envs: env, signal: abortSignal };
      const { exitCode, stdout, stderr } = await commands.run(command, options);
      return { exitCode, stdout, stderr };
    },

    spawn: async ({ command, workingDirectory, env, abortSignal, stdin }) => {
      const options = { cwd: workingDirectory, envs: env, signal: abortSignal };
      const more = stdin ? ({ background: true, stdin: 'open' } as const) : ({ background: true } as const);
      return processOf(await commands.run(command, { ...options, ...more }), stdin);
    },

    readFile: async ({ path, abortSignal }) => {
      abortSignal?.throwIfAborted();
      const pieces = files.readStream(path);
      const first = await orNull(pieces.next());
      if (first === null) return null;
      return ReadableStream.from(withFirst(first, pieces, abortSignal)) as ReadableStream<Uint8Array>;
    },
    readBinaryFile: ({ path, abortSignal }) => readBytes(path, abortSignal),
    readTextFile: async ({ path, encoding, startLine = 1, endLine, abortSignal }) => {
      const bytes = await readBytes(path, abortSignal);
      if (bytes === null) return null;
      const text = new TextDecoder(encoding).decode(bytes);
      return startLine === 1 && endLine === undefined ? text : linesOf(text, startLine, endLine);
    },

    writeFile: async ({ path, content, abortSignal }) => {
      abortSignal?.throwIfAborted();
      await files.write(path, content);
    },
    writeBinaryFile: async ({ path, content, abortSignal }) => {
      abortSignal?.throwIfAborted();
      await files.write(path, content);
    },
    writeTextFile: async ({ path, content, encoding, abortSignal }) => {
      abortSignal?.throwIfAborted();
      await files.write(path, Buffer.from(content, encoding as BufferEncoding | undefined));
    },

    stat: async ({ path, abortSignal }) => {
      abortSignal?.throwIfAborted();
      const entry = await orNull(files.stat(path));
      if (entry === null) return null;
      const size = entry.symlinkTarget === null ? entry.size : await followedSize(entry.path);
      return size === null ? null : { type: entry.type, size };
    },
    listDirectory: async ({ path, abortSignal }) => {
      abortSignal?.throwIfAborted();
      const entries = await orNull(files.list(path));
      const typeOf = ({ type, symlinkTarget }: FileInfo) => (symlinkTarget === null ? type : 'symlink');
      return entries?.map((entry) => ({ name: entry.name, type: typeOf(entry) })) ?? null;
    },
    deleteFile: async ({ path, abortSignal }) => {
      abortSignal?.throwIfAborted();
      const entry = await orNull(files.stat(path));
      if (entry === null) return false;
      if (entry.type === 'directory' && entry.symlinkTarget === null) throw new Error(`${path} is a directory`);
      await files.remove(path);
      return true;
    },
  };
}

async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SandboxError && error.code === 'not_found') return null;
    throw error;
  }
}

async function* withFirst(first: IteratorResult<Uint8Array>, rest: AsyncGenerator<Uint8Array>, signal?: AbortSignal) {
  if (!first.done) yield first.value;
  for await (const piece of rest) {
    signal?.throwIfAborted();
    yield piece;
  }
}

function linesOf(text: string, startLine: number, endLine?: number): string {
  const lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
  return text
    .split(lineEnd)
    .slice(startLine - 1, endLine)
    .join(lineEnd);
}

/** The type of a process that was started with `stdin`. Other processes have no `stdin`. */
type WritableProcess = Experimental_SandboxProcess & { readonly stdin: WritableStream<Uint8Array> };

function processOf(handle: CommandHandle, stdin = false): WritableProcess {
  const [stdout, stderr] = [new ProcessOutput(), new ProcessOutput()];
  const copy = async () => {
    for await (const { from, bytes } of handle) await (from === 'stderr' ? stderr : stdout).add(bytes);
  };
  const end = (error?: unknown) => {
    for (const output of [stdout, stderr]) output.end(error);
  };
  copy().then(() => end(), end);
  return {
    ...{ pid: handle.pid, stdout: stdout.stream, stderr: stderr.stream },
    wait: async () => ({ exitCode: (await handle.wait()).exitCode }),
    kill: async () => {
      await handle.kill();
    },
    ...(stdin && {
      stdin: new WritableStream<Uint8Array>({
        write: (data) => handle.sendStdin(data),
        close: () => handle.closeStdin(),
      }),
    }),
  } as WritableProcess;
}

/** One of the two outputs of a process, as a stream. */
class ProcessOutput {
  readonly stream: ReadableStream<Uint8Array>;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #isCancelled = false;
  #wake = () => {};

  constructor() {
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#wake(),
        cancel: () => {
          this.#isCancelled = true;
          this.#wake();
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: bufferedBytes }),
    );
  }

  async add(bytes: Uint8Array): Promise<void> {
    if (this.#isCancelled) return;
    this.#controller.enqueue(bytes);
    while (!this.#isCancelled && this.#controller.desiredSize! <= 0) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  end(error?: unknown): void {
    if (this.#isCancelled) return;
    if (error === undefined) this.#controller.close();
    else this.#controller.error(error);
  }
}
