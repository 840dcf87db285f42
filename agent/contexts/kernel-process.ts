import { type ChildProcess, execFile, type StdioOptions, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { endBeforeAgent } from '../process/oom-score.ts';

const lastWordsBytes = 8 * 1024;
const leaveMs = 1000;

/** The process of a kernel: leader of its own group, with a private folder for its sockets and files. */
export class KernelProcess {
  readonly child: ChildProcess;
  /** Resolves with a text of how it ended. Its last output may still be in its pipes: see `pipesRead`. */
  readonly exited: Promise<string>;
  /** Aborted when it has ended. */
  readonly gone: AbortSignal;
  /** How it ended; undefined while it runs. */
  ending: string | undefined;
  readonly #folder: string | undefined;
  #tail = Buffer.alloc(0);

  constructor(
    command: string[],
    options: { cwd: string; env: Record<string, string>; stdio: StdioOptions; folder?: string },
  ) {
    this.#folder = options.folder;
    this.child = spawn(command[0]!, command.slice(1), {
      cwd: options.cwd,
      env: options.env,
      stdio: options.stdio,
      detached: true,
    });
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
      this.child.once('error', (error) => end(error.message));
      this.child.once('exit', (code, signal) => end(signal ? `killed by ${signal}` : `exit code ${code}`));
    });
  }

  /** Keeps the last output of `stream`, for the error when the kernel dies. */
  keepLastWords(stream: Readable): void {
    stream.on('data', (chunk: Buffer) => {
      this.#tail = Buffer.concat([this.#tail, chunk.subarray(-lastWordsBytes)]).subarray(-lastWordsBytes);
    });
  }

  get lastWords(): string {
    return this.#tail.toString('utf8');
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

  /** Waits for it to exit, then ends its group and removes its folder. */
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

/** A private folder, short enough in name for Unix sockets in it. */
export function makeKernelFolder(): string {
  fs.mkdirSync(os.tmpdir(), { recursive: true, mode: 0o1777 });
  return fs.mkdtempSync(path.join(os.tmpdir(), 'context-'));
}

/** Where a kernel writes: pipes with names in its folder. */
export interface OutputPipes {
  stdout: Readable;
  stderr: Readable;
  /** Descriptors for the child, to be closed here afterwards. */
  writeFds: [number, number];
}

/**
 * Pipes with names: programs can open them again as `/dev/stdout` and `/dev/stderr`, which they cannot with the
 * sockets that Node makes for its children.
 * @returns undefined where there is no mkfifo(1) to make them with
 */
export async function makeOutputPipes(folder: string, env: Record<string, string>): Promise<OutputPipes | undefined> {
  const mkfifo = findExecutable('mkfifo', env);
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
 * Resolves when everything now in pipes and sockets has been read, except in paused ones: the poll phase between two
 * immediates reads it.
 */
export async function pipesRead(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** The first executable of that name on `PATH`; a name with a slash is a path. */
export function findExecutable(name: string, env: Record<string, string>): string | undefined {
  const folders = (env.PATH ?? '').split(':').map((folder) => folder || '.');
  const candidates = name.includes('/') ? [name] : folders.map((folder) => path.join(folder, name));
  return candidates.find((candidate) => {
    try {
      fs.accessSync(candidate, fs.constants.X_OK);
      return fs.statSync(candidate).isFile();
    } catch {
      return false; // Missing, or not executable for the agent: try the next folder.
    }
  });
}
