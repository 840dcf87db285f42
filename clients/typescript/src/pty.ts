import { type AgentClient, isNotFound } from './agent-client.ts';
import { ProcessStream } from './process-stream.ts';

export interface TerminalSize {
  cols: number;
  rows: number;
}

export interface PtyOptions extends Partial<TerminalSize> {
  /** A program with its arguments. Default: a login shell. */
  command?: string[];
  cwd?: string;
  envs?: Record<string, string>;
  tag?: string;
  /** Called with each piece of output. Without it, read the output with `for await`. */
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
    const stream = await ProcessStream.start(this.#agent, {
      process: { cmd, args, envs: options.envs ?? {}, ...(options.cwd === undefined ? {} : { cwd: options.cwd }) },
      pty: { size: { cols, rows } },
      ...(options.tag === undefined ? {} : { tag: options.tag }),
    });
    return new Terminal(this.#agent, stream, options.onData);
  }

  /** Follows a running terminal. */
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

  constructor(agent: AgentClient, stream: ProcessStream, onData: ((bytes: Uint8Array) => void) | undefined) {
    this.#agent = agent;
    this.#stream = stream;
    this.#onData = onData;
  }

  get pid(): number {
    return this.#stream.pid;
  }

  /** Sends input, as typed by a person. */
  async write(data: string | Uint8Array): Promise<void> {
    const pty = Buffer.from(data).toString('base64');
    await this.#agent.call('Process/SendInput', { process: { pid: this.pid }, input: { pty } });
  }

  async resize(size: TerminalSize): Promise<void> {
    await this.#agent.call('Process/Update', { process: { pid: this.pid }, pty: { size } });
  }

  async kill(): Promise<boolean> {
    try {
      await this.#agent.call('Process/SendSignal', { process: { pid: this.pid }, signal: 'SIGNAL_SIGKILL' });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  /** Closes the connection. The program continues. */
  disconnect(): void {
    this.#stream.disconnect();
  }

  /** The terminal's output until the program ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for await (const { bytes } of this.#stream.output()) yield bytes;
  }

  /** Passes all output to `onData`. Returns the exit code. */
  async wait(): Promise<{ exitCode: number }> {
    for await (const bytes of this) this.#onData?.(bytes);
    return { exitCode: this.#stream.ended!.exitCode };
  }
}
