import type { AgentClient } from './agent-client.ts';
import { isNotFound } from './agent-client.ts';
import { CommandFailedError, SandboxError } from './errors.ts';
import type { ProcessConfig } from './generated/agent.ts';
import { defaultOutputLength, OutputText } from './output-text.ts';
import { type Output, ProcessStream } from './process-stream.ts';
import type { RequestOptions } from './request-options.ts';

export type KillSignal = 'SIGKILL' | 'SIGTERM';

export interface CommandOptions {
  /** A user of the sandbox, by name or number. Default: root. */
  user?: string;
  /** Default: the home folder of the user. */
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
  /**
   * The client leaves the command after this time, and `wait` throws `disconnected`. The command continues, and the next
   * `connect` gets the output from there.
   */
  leaveAfterMs?: number;
}

export type FollowOptions = Pick<
  CommandOptions,
  'onStdout' | 'onStderr' | 'timeoutMs' | 'signal' | 'check' | 'maxOutputLength' | 'leaveAfterMs'
>;

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

const noInput = 'exec </dev/null; ';
const becomeProgram = 'exec "$@"';
const becomeShell = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"';
/** Scripts that start a command. The command is in the arguments after `-c`, the script and `sh`. */
const launchers = new Set([noInput + becomeProgram, noInput + becomeShell, becomeShell]);
/** The input of a command is sent in pieces of this size. */
const inputPieceBytes = 4 * 1024 * 1024;
/** The maximum number of pieces of output that are kept for a reader who has not come yet. */
const maxPieces = 65_536;

/** Commands in the sandbox. */
export class Commands {
  readonly #agent: AgentClient;

  constructor(agent: AgentClient) {
    this.#agent = agent;
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
    const { tag } = options;
    const request = { process: configOf(command, options), ...(tag !== undefined && { tag }) };
    const handle = new CommandHandle(this.#agent, await ProcessStream.start(this.#agent, request, options), options);
    return options.background ? handle : handle.wait();
  }

  /**
   * Follows a running process, or one that ended not long ago. The output since its last client left comes first, up to
   * 1 MiB.
   * @throws {SandboxError} `not_found`
   */
  async connect(process: number | { tag: string }, options: FollowOptions = {}): Promise<CommandHandle> {
    const selector = typeof process === 'number' ? { pid: process } : process;
    const stream = await ProcessStream.connect(this.#agent, selector, options.leaveAfterMs);
    return new CommandHandle(this.#agent, stream, { ...options, background: true });
  }

  /** The running processes that were started through the agent. */
  async list(options: RequestOptions = {}): Promise<RunningProcess[]> {
    const { processes } = await this.#agent.call('Process/List', {}, options);
    return processes.map(({ pid, config, tag }) => {
      const { cmd = '', args = [] } = config ?? {};
      const isLaunched = cmd === 'sh' && args[0] === '-c' && launchers.has(args[1] ?? '');
      return { pid, tag: tag ?? null, command: isLaunched ? args.slice(3) : [cmd, ...args] };
    });
  }

  /** Ends a process and its group. Returns whether there was one. */
  kill(pid: number, signal: KillSignal = 'SIGKILL', options: RequestOptions = {}): Promise<boolean> {
    return sendSignal(this.#agent, pid, signal, options);
  }
}

function configOf(command: string | string[], { stdin, cwd, envs = {} }: CommandOptions): ProcessConfig {
  const more = { envs, ...(cwd !== undefined && { cwd }) };
  const [words, become] = typeof command === 'string' ? [[command], becomeShell] : [command, becomeProgram];
  if (stdin === undefined) return { cmd: 'sh', args: ['-c', noInput + become, 'sh', ...words], ...more };
  if (become === becomeShell) return { cmd: 'sh', args: ['-c', becomeShell, 'sh', ...words], ...more };
  return { cmd: words[0] ?? '', args: words.slice(1), ...more };
}

/**
 * A command that runs or has ended. Its output is read as it comes, so a command never waits for its reader, unless
 * `for await` reads the pieces.
 */
export class CommandHandle implements AsyncIterable<Output> {
  readonly #agent: AgentClient;
  readonly #stream: ProcessStream;
  readonly #options: CommandOptions;
  readonly #stdout: OutputText;
  readonly #stderr: OutputText;
  readonly #pieces: PieceQueue | null;
  readonly #end: Promise<void>;
  readonly #feeding: Promise<void>;

  constructor(agent: AgentClient, stream: ProcessStream, options: CommandOptions & { background?: boolean }) {
    this.#agent = agent;
    this.#stream = stream;
    this.#options = options;
    const { maxOutputLength = defaultOutputLength } = options;
    this.#stdout = new OutputText(maxOutputLength);
    this.#stderr = new OutputText(maxOutputLength);
    this.#pieces = options.background ? new PieceQueue(maxOutputLength) : null;
    this.#end = this.#limited(() => this.#read());
    const { stdin } = options;
    this.#feeding = stdin === undefined || stdin === 'open' ? Promise.resolve() : this.#feed(Buffer.from(stdin));
    // `wait` and the iterator throw the errors.
    for (const work of [this.#end, this.#feeding]) work.catch(() => {});
  }

  get pid(): number {
    return this.#stream.pid;
  }

  /** 128 + n if signal n ended it. Null while it runs. */
  get exitCode(): number | null {
    return this.#stream.ended?.exitCode ?? null;
  }

  /** Its output so far. */
  get stdout(): string {
    return this.#stdout.text;
  }

  get stderr(): string {
    return this.#stderr.text;
  }

  /** Writes to its standard input. It needs `stdin: 'open'`. */
  async sendStdin(data: string | Uint8Array, options: RequestOptions = {}): Promise<void> {
    const stdin = Buffer.from(data).toString('base64');
    await this.#agent.call('Process/SendInput', { process: { pid: this.pid }, input: { stdin } }, options);
  }

  /** Ends its standard input after everything that was written. */
  async closeStdin(options: RequestOptions = {}): Promise<void> {
    await this.#agent.call('Process/CloseStdin', { process: { pid: this.pid } }, options);
  }

  /** Ends the command and its group. Returns whether it still ran. */
  kill(signal: KillSignal = 'SIGKILL', options: RequestOptions = {}): Promise<boolean> {
    return sendSignal(this.#agent, this.pid, signal, options);
  }

  /** Closes the connection. The command continues. */
  disconnect(): void {
    this.#stream.disconnect();
  }

  /**
   * Its output until it ends. Of output that came before the first reader, the newest `maxOutputLength` bytes are kept.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Output, void> {
    if (this.#pieces) yield* this.#pieces.read();
    await this.#end;
  }

  /** Waits for its end and returns its result. */
  async wait(): Promise<CommandResult> {
    await this.#end;
    await this.#feeding;
    const exitCode = this.#stream.ended!.exitCode;
    const texts = { stdout: this.stdout, stderr: this.stderr };
    const result = { exitCode, ...texts, truncated: this.#stdout.isTruncated || this.#stderr.isTruncated };
    if (this.#options.check && exitCode !== 0) throw new CommandFailedError(result);
    return result;
  }

  async #read(): Promise<void> {
    const { onStdout, onStderr } = this.#options;
    try {
      for await (const piece of this.#stream.output()) {
        const [kept, listener] = piece.from === 'stderr' ? [this.#stderr, onStderr] : [this.#stdout, onStdout];
        const text = kept.add(piece.bytes);
        listener?.(text);
        await this.#pieces?.add(piece);
      }
      this.#stdout.finish();
      this.#stderr.finish();
    } finally {
      this.#pieces?.end();
    }
  }

  /** Sends the whole input. A failure kills the command. */
  async #feed(input: Uint8Array): Promise<void> {
    const options = { requestTimeoutMs: Number.POSITIVE_INFINITY };
    try {
      for (let at = 0; at < input.length; at += inputPieceBytes) {
        await this.sendStdin(input.subarray(at, at + inputPieceBytes), options);
      }
      await this.closeStdin(options);
    } catch (error) {
      // A command may end, or close its input, without reading all of it.
      if (['failed_precondition', 'not_found'].includes((error as SandboxError).code)) return;
      await this.kill();
      throw error;
    }
  }

  /** Kills the command when its time is over or the caller aborts. What it has left in other groups continues. */
  async #limited(work: () => Promise<void>): Promise<void> {
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
      await work();
    } catch (error) {
      throw reason ?? error;
    } finally {
      clearTimeout(timer);
      clearTimeout(leaving);
      signal?.removeEventListener('abort', onAbort);
    }
    if (reason !== undefined) throw reason;
  }
}

/**
 * Output between the connection and `for await`. While somebody reads, `add` waits for the reader. Otherwise the oldest
 * pieces are dropped.
 */
class PieceQueue {
  readonly #maxBytes: number;
  #pieces: Output[] = [];
  #bytes = 0;
  #readers = 0;
  #isOver = false;
  #wake = () => {};
  #changed = Promise.resolve();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#notify();
  }

  async add(piece: Output): Promise<void> {
    if (piece.bytes.length === 0) return;
    this.#pieces.push(piece);
    this.#bytes += piece.bytes.length;
    this.#notify();
    while (this.#readers > 0 && this.#pieces.length > 0) await this.#changed;
    while (this.#bytes > this.#maxBytes || this.#pieces.length > maxPieces) this.#take();
  }

  end(): void {
    this.#isOver = true;
    this.#notify();
  }

  async *read(): AsyncGenerator<Output, void> {
    this.#readers += 1;
    try {
      for (;;) {
        const piece = this.#take();
        if (piece) yield piece;
        else if (this.#isOver) return;
        else await this.#changed;
      }
    } finally {
      this.#readers -= 1;
      this.#notify();
    }
  }

  #take(): Output | undefined {
    const piece = this.#pieces.shift();
    if (!piece) return undefined;
    this.#bytes -= piece.bytes.length;
    if (this.#pieces.length === 0) this.#notify();
    return piece;
  }

  #notify(): void {
    this.#wake();
    this.#changed = new Promise((wake) => {
      this.#wake = wake;
    });
  }
}

/** Sends a signal to a process and its group. Returns whether there was one. */
export async function sendSignal(
  agent: AgentClient,
  pid: number,
  signal: KillSignal,
  options: RequestOptions = {},
): Promise<boolean> {
  try {
    await agent.call('Process/SendSignal', { process: { pid }, signal: `SIGNAL_${signal}` }, options);
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
