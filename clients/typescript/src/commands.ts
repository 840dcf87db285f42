import { randomUUID } from 'node:crypto';
import type { AgentClient } from './agent-client.ts';
import { isNotFound } from './agent-client.ts';
import { CommandFailedError, SandboxError } from './errors.ts';
import type { Files } from './files.ts';
import { defaultOutputLength, OutputText } from './output-text.ts';
import { type Output, ProcessStream } from './process-stream.ts';

export interface CommandOptions {
  /** Default: the home folder. */
  cwd?: string;
  /** Overrides variables of the sandbox's environment. */
  envs?: Record<string, string>;
  /** The input of the command. `'open'`: the input of `sendStdin`, without an end. Default: empty. */
  stdin?: string | Uint8Array | 'open';
  /** Called with each piece of output, as text. */
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** A name by which `connect` finds the process. */
  tag?: string;
  /** The command is killed after this time, with the error `timed_out`. */
  timeoutMs?: number;
  /** Kills the command. */
  signal?: AbortSignal;
  /** Throw a `CommandFailedError` for another exit code than 0. */
  check?: boolean;
  /**
   * The maximum length of stdout and of stderr, in characters. If the output is longer, its beginning is dropped.
   * Default 8 Mi.
   */
  maxOutputLength?: number;
}

export interface CommandResult {
  /** 128 + n if signal n ended it. */
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Output was dropped, see `maxOutputLength`. */
  truncated: boolean;
}

export interface RunningProcess {
  pid: number;
  /** The program with its arguments, or a single text for the shell. */
  command: string[];
  tag: string | null;
}

/** A killed command has this long to end. */
const killMs = 5000;

/** Opens the input file and removes it, then becomes the command. */
const openInput = 'exec <"$1" || exit 126; [ "$1" = /dev/null ] || rm -f -- "$1"; shift; ';
const becomeProgram = 'exec "$@"';
const becomeShell = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"';
/** Scripts that start a command, with the index of the command in the arguments. */
const launchers = new Map([
  [openInput + becomeProgram, 4],
  [openInput + becomeShell, 4],
  [becomeShell, 3],
]);

/** Commands in the sandbox. */
export class Commands {
  readonly #agent: AgentClient;
  readonly #files: Files;

  constructor(agent: AgentClient, files: Files) {
    this.#agent = agent;
    this.#files = files;
  }

  /**
   * Runs a command: a text for the shell, or a program with its arguments. With `background` it returns as soon as the
   * command has started.
   * @throws {SandboxError}
   */
  run(command: string | string[], options: CommandOptions & { background: true }): Promise<CommandHandle>;
  run(command: string | string[], options?: CommandOptions & { background?: false }): Promise<CommandResult>;
  async run(
    command: string | string[],
    options: CommandOptions & { background?: boolean } = {},
  ): Promise<CommandHandle | CommandResult> {
    options.signal?.throwIfAborted();
    const stream = await ProcessStream.start(this.#agent, {
      process: await this.#config(command, options),
      ...(options.tag === undefined ? {} : { tag: options.tag }),
    });
    const handle = new CommandHandle(this.#agent, stream, options);
    return options.background ? handle : handle.wait();
  }

  /** Follows a running process. The output since its last client left comes first, up to 1 MiB. */
  async connect(process: number | { tag: string }, options: CommandOptions = {}): Promise<CommandHandle> {
    const stream = await ProcessStream.connect(this.#agent, typeof process === 'number' ? { pid: process } : process);
    return new CommandHandle(this.#agent, stream, options);
  }

  /** The running processes that were started through the agent. */
  async list(): Promise<RunningProcess[]> {
    const { processes } = await this.#agent.call('Process/List', {});
    return processes.map(({ pid, config, tag }) => {
      const { cmd = '', args = [] } = config ?? {};
      const place = cmd === 'sh' && args[0] === '-c' ? launchers.get(args[1] ?? '') : undefined;
      return { pid, tag: tag ?? null, command: place === undefined ? [cmd, ...args] : args.slice(place) };
    });
  }

  /** Ends a process and its group. Returns whether there was one. */
  kill(pid: number, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<boolean> {
    return sendSignal(this.#agent, pid, signal);
  }

  async #config(command: string | string[], { stdin, cwd, envs }: CommandOptions) {
    const more = { envs: envs ?? {}, ...(cwd === undefined ? {} : { cwd }) };
    const [words, become] = typeof command === 'string' ? [[command], becomeShell] : [command, becomeProgram];
    if (stdin === 'open') {
      if (become === becomeShell) return { cmd: 'sh', args: ['-c', becomeShell, 'sh', ...words], ...more };
      return { cmd: words[0] ?? '', args: words.slice(1), ...more };
    }
    const source = stdin === undefined ? '/dev/null' : await this.#keepInput(stdin);
    return { cmd: 'sh', args: ['-c', openInput + become, 'sh', source, ...words], ...more };
  }

  async #keepInput(stdin: string | Uint8Array): Promise<string> {
    const path = `/tmp/.stdin-${randomUUID()}`;
    await this.#files.write(path, stdin);
    return path;
  }
}

/** A running command. Read its output with `for await`, or let `wait` collect it. */
export class CommandHandle implements AsyncIterable<Output> {
  readonly #agent: AgentClient;
  readonly #stream: ProcessStream;
  readonly #options: CommandOptions;
  #result: Promise<CommandResult> | null = null;

  constructor(agent: AgentClient, stream: ProcessStream, options: CommandOptions) {
    this.#agent = agent;
    this.#stream = stream;
    this.#options = options;
  }

  get pid(): number {
    return this.#stream.pid;
  }

  /** Writes to its standard input. It needs `stdin: 'open'`. */
  async sendStdin(data: string | Uint8Array): Promise<void> {
    const stdin = Buffer.from(data).toString('base64');
    await this.#agent.call('Process/SendInput', { process: { pid: this.pid }, input: { stdin } });
  }

  kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<boolean> {
    return sendSignal(this.#agent, this.pid, signal);
  }

  /** Closes the connection. The command continues. */
  disconnect(): void {
    this.#stream.disconnect();
  }

  /** Its output until it ends. */
  [Symbol.asyncIterator](): AsyncGenerator<Output, void> {
    return this.#stream.output();
  }

  /** Waits for its end and returns its result. */
  wait(): Promise<CommandResult> {
    this.#result ??= this.#limited(() => this.#collect());
    return this.#result;
  }

  async #collect(): Promise<CommandResult> {
    const { onStdout, onStderr, check, maxOutputLength = defaultOutputLength } = this.#options;
    const stdout = new OutputText(maxOutputLength);
    const stderr = new OutputText(maxOutputLength);
    for await (const { from, bytes } of this.#stream.output()) {
      const [kept, listener] = from === 'stderr' ? [stderr, onStderr] : [stdout, onStdout];
      const text = kept.add(bytes);
      listener?.(text);
    }
    const exitCode = this.#stream.ended!.exitCode;
    const texts = { stdout: stdout.toString(), stderr: stderr.toString() };
    const result = { exitCode, ...texts, truncated: stdout.isTruncated || stderr.isTruncated };
    if (check && exitCode !== 0) throw new CommandFailedError(result);
    return result;
  }

  /** Kills the command when its time is over or the caller aborts. */
  async #limited(work: () => Promise<CommandResult>): Promise<CommandResult> {
    const { timeoutMs, signal } = this.#options;
    if (timeoutMs === undefined && !signal) return work();
    let reason: unknown;
    let leaving: NodeJS.Timeout | undefined;
    const stop = (why: unknown) => {
      reason ??= why;
      // The command's end ends its stream. If the kill fails or has no effect, the stream is closed.
      leaving ??= setTimeout(() => this.#stream.disconnect(), killMs);
      this.kill().catch(() => this.#stream.disconnect());
    };
    const onTimeout = () =>
      stop(new SandboxError('timed_out', `The command did not end in ${timeoutMs} ms and was killed`));
    const onAbort = () => stop(signal!.reason);
    const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    try {
      const result = await work();
      if (reason === undefined) return result;
      throw reason;
    } catch (error) {
      throw reason ?? error;
    } finally {
      clearTimeout(timer);
      clearTimeout(leaving);
      signal?.removeEventListener('abort', onAbort);
    }
  }
}

async function sendSignal(agent: AgentClient, pid: number, signal: 'SIGKILL' | 'SIGTERM'): Promise<boolean> {
  try {
    await agent.call('Process/SendSignal', { process: { pid }, signal: `SIGNAL_${signal}` });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
