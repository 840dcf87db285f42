import { type ChildProcess, execFile, type StdioOptions, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { Code } from '@connectrpc/connect';
import { systemError } from '../native/libc.ts';
import { findExecutable } from '../process/find-executable.ts';
import { endBeforeAgent } from '../process/oom-score.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { toConnectError } from '../rpc/errors.ts';

const lastWordsBytes = 8 * 1024;
const leaveMs = 1000;

/** The process of a kernel. It leads its own group and has a private folder for its sockets and files. */
export class KernelProcess {
  readonly child: ChildProcess;
  /** Resolves with a description of its end. Its last output may still be in its pipes: see `pipesRead`. */
  readonly exited: Promise<string>;
  /** Aborted when the process has ended. */
  readonly gone: AbortSignal;
  /** A description of its end. Undefined while it runs. */
  ending: string | undefined;
  readonly #folder: string | undefined;
  /** It was not started at all, for this reason. */
  #refused: NodeJS.ErrnoException | undefined;
  #tail = Buffer.alloc(0);

  /** @throws errno when the kernel lacks memory or descriptors for it; then its folder is removed */
  constructor(
    command: string[],
    options: { cwd: string; env: Record<string, string>; stdio: StdioOptions; folder?: string },
  ) {
    this.#folder = options.folder;
    try {
      this.child = start(command, options);
    } catch (error) {
      if (options.folder) fs.rmSync(options.folder, { recursive: true, force: true });
      throw error;
    }
    if (this.child.pid !== undefined) endBeforeAgent(this.child.pid);
    const gone = new AbortController();
    this.gone = gone.signal;
    this.exited = new Promise((resolve) => {
      const end = (how: string) => {
        if (this.ending !== undefined) return;
        this.ending = how;
        // End the processes that it left in its group.
        this.signalGroup('SIGKILL');
        gone.abort();
        resolve(how);
      };
      this.child.once('error', (error) => {
        this.#refused = error;
        end(error.message);
      });
      this.child.once('exit', (code, signal) => end(signal ? `killed by ${signal}` : `exit code ${code}`));
    });
  }

  /** Keeps the last output of `stream`, for the error if the kernel dies. */
  keepLastWords(stream: Readable): void {
    stream.on('data', (chunk: Buffer) => {
      this.#tail = Buffer.concat([this.#tail, chunk.subarray(-lastWordsBytes)]).subarray(-lastWordsBytes);
    });
  }

  get lastWords(): string {
    return this.#tail.toString('utf8');
  }

  /**
   * The error of a start that failed: `resource_exhausted` when the sandbox lacks memory or processes,
   * `failed_precondition` otherwise.
   */
  startFailure(language: string, details: string): ConnectError {
    const text = `the ${language} kernel did not start: ${this.ending ?? 'it did not answer in time'}`;
    if (this.#refused) {
      const { code } = toConnectError(this.#refused);
      return new ConnectError(text, code === Code.ResourceExhausted ? code : Code.FailedPrecondition);
    }
    // Only the kernel itself kills an interpreter that starts.
    if (this.child.signalCode === 'SIGKILL') {
      return new ConnectError(`${text} (often for lack of memory)`, Code.ResourceExhausted);
    }
    return new ConnectError(`${text}\n${details}`, Code.FailedPrecondition);
  }

  /** Sends a signal to the whole group, if it still exists. */
  signalGroup(signal: NodeJS.Signals): void {
    if (this.child.pid === undefined) return;
    try {
      process.kill(-this.child.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /** Waits for its exit, then ends its group and removes its folder. */
  async close(): Promise<void> {
    if (this.ending === undefined) {
      this.signalGroup('SIGTERM');
      const force = setTimeout(() => this.signalGroup('SIGKILL'), leaveMs);
      await this.exited;
      clearTimeout(force);
    }
    if (this.#folder) await fs.promises.rm(this.#folder, { recursive: true, force: true });
  }
}

/** @throws errno */
function start(
  command: string[],
  { cwd, env, stdio }: { cwd: string; env: Record<string, string>; stdio: StdioOptions },
): ChildProcess {
  const child = spawn(command[0]!, command.slice(1), { cwd, env, stdio, detached: true });
  // Without free descriptors Node returns a child without pipes and reports the error later.
  if (!child.stdio) {
    child.once('error', () => {});
    throw systemError('spawn', os.constants.errno.EMFILE, command[0]);
  }
  return child;
}

/** A private folder with a name that is short enough for Unix sockets in it. */
export function makeKernelFolder(): string {
  fs.mkdirSync(os.tmpdir(), { recursive: true, mode: 0o1777 });
  return fs.mkdtempSync(path.join(os.tmpdir(), 'context-'));
}

/** The output pipes of a kernel: named pipes in its folder. */
export interface OutputPipes {
  stdout: Readable;
  stderr: Readable;
  /** Descriptors for the child. The parent must close them afterwards. */
  writeFds: [number, number];
}

/**
 * Named pipes, because programs can open them again as `/dev/stdout` and `/dev/stderr`. That is impossible with the
 * sockets that Node makes for its children.
 * @returns undefined when there is no mkfifo(1)
 */
export async function makeOutputPipes(folder: string, searchPath: string): Promise<OutputPipes | undefined> {
  const mkfifo = findExecutable('mkfifo', searchPath);
  if (!mkfifo) return undefined;
  const names = ['stdout', 'stderr'].map((name) => path.join(folder, name));
  await promisify(execFile)(mkfifo, names);
  const [stdout, stderr] = names.map(openPipe) as [Pipe, Pipe];
  return { stdout: stdout.reader, stderr: stderr.reader, writeFds: [stdout.writeFd, stderr.writeFd] };
}

interface Pipe {
  reader: Readable;
  writeFd: number;
}

function openPipe(name: string): Pipe {
  const readFd = fs.openSync(name, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  const writeFd = fs.openSync(name, fs.constants.O_WRONLY);
  return { reader: new net.Socket({ fd: readFd, readable: true, writable: false }), writeFd };
}

/**
 * Resolves when all data that is now in pipes and sockets has been read, except in paused ones. The event loop's poll
 * phase between two immediates reads it.
 */
export async function pipesRead(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
