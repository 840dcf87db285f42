import type { AgentClient } from './agent-client.ts';
import { sendSignal } from './commands.ts';
import { ProcessStream } from './process-stream.ts';
import type { RequestOptions } from './request-options.ts';

export interface TerminalSize {
  cols: number;
  rows: number;
}

export interface PtyOptions extends Partial<TerminalSize> {
  /** A program with its arguments. Default: a login shell. */
  command?: string[];
  /** A user of the sandbox, by name or number. Default: root. */
  user?: string;
  cwd?: string;
  envs?: Record<string, string>;
  tag?: string;
  /** Called with each piece of output as it comes. Without it, read the output with `for await`. */
  onData?: (bytes: Uint8Array) => void;
}

const loginShell = ['sh', '-c', 'command -v bash >/dev/null && exec bash -l; exec sh -l'];

/** Terminals in the sandbox. */
export class Pty {
  readonly #agent: AgentClient;

  constructor(agent: AgentClient) {
    this.#agent = agent;
  }

  /** Starts a program on a new terminal. */
  async start({ cols = 80, rows = 24, command = loginShell, ...options }: PtyOptions = {}): Promise<Terminal> {
    const [cmd = '', ...args] = command;
    const request = {
      process: { cmd, args, envs: options.envs ?? {}, ...(options.cwd === undefined ? {} : { cwd: options.cwd }) },
      pty: { size: { cols, rows } },
      ...(options.tag === undefined ? {} : { tag: options.tag }),
    };
    const stream = await ProcessStream.start(this.#agent, request, options);
    return new Terminal(this.#agent, stream, options.onData);
  }

  /** Follows a running terminal, or one that ended not long ago. */
  async connect(process: number | { tag: string }, options: Pick<PtyOptions, 'onData'> = {}): Promise<Terminal> {
    const stream = await ProcessStream.connect(this.#agent, typeof process === 'number' ? { pid: process } : process);
    return new Terminal(this.#agent, stream, options.onData);
  }
}

/** A program on a terminal. */
export class Terminal implements AsyncIterable<Uint8Array> {
  readonly #agent: AgentClient;
  readonly #stream: ProcessStream;
  readonly #onData: ((bytes: Uint8Array) => void) | undefined;
  #reading: Promise<void> | undefined;

  constructor(agent: AgentClient, stream: ProcessStream, onData: ((bytes: Uint8Array) => void) | undefined) {
    this.#agent = agent;
    this.#stream = stream;
    this.#onData = onData;
    // `wait` throws the error.
    if (onData) this.#read().catch(() => {});
  }

  get pid(): number {
    return this.#stream.pid;
  }

  /** 128 + n if signal n ended it. Null while it runs. */
  get exitCode(): number | null {
    return this.#stream.ended?.exitCode ?? null;
  }

  /** Sends input, as typed by a person. */
  async write(data: string | Uint8Array, options: RequestOptions = {}): Promise<void> {
    const pty = Buffer.from(data).toString('base64');
    await this.#agent.call('Process/SendInput', { process: { pid: this.pid }, input: { pty } }, options);
  }

  async resize(size: TerminalSize, options: RequestOptions = {}): Promise<void> {
    await this.#agent.call('Process/Update', { process: { pid: this.pid }, pty: { size } }, options);
  }

  /** Ends the program and its group. Returns whether it still ran. */
  kill(options: RequestOptions = {}): Promise<boolean> {
    return sendSignal(this.#agent, this.pid, 'SIGKILL', options);
  }

  /** Closes the connection. The program continues. */
  disconnect(): void {
    this.#stream.disconnect();
  }

  /** The terminal's output until the program ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for await (const { bytes } of this.#stream.output()) yield bytes;
  }

  /** Waits for the end of the program. */
  async wait(): Promise<{ exitCode: number }> {
    await this.#read();
    return { exitCode: this.#stream.ended!.exitCode };
  }

  #read(): Promise<void> {
    this.#reading ??= (async () => {
      for await (const bytes of this) this.#onData?.(bytes);
    })();
    return this.#reading;
  }
}
