import type { Terminal } from '@xterm/xterm';
import { callAgent, fromBase64, streamFromAgent, toBase64 } from '../shared/agent.ts';
import { PageError, visibleText } from '../shared/page-error.ts';
import { toFields } from '../shared/replies.ts';
import { isPassing } from '../shared/session.ts';

export interface TerminalSize {
  cols: number;
  rows: number;
}

const agent = '/terminal/agent';
const loginShell = ['-c', 'command -v bash >/dev/null && exec bash -l; exec sh -l'];
/**
 * The limit of output that the terminal has not shown yet. Above it the process waits; below the lower mark it
 * continues.
 */
const highWaterBytes = 512 * 1024;
const lowWaterBytes = 128 * 1024;
/** The agent sends three keepalives in this time. */
const silenceMs = 45_000;
/** A program that redraws does so in this time, even on a busy machine. */
const redrawMs = 5000;

/** One shell of the sandbox in this tab. It survives reconnects and reloads, because the tab stores its tag. */
export class Shell {
  readonly #terminal: Terminal;
  #waitingBytes = 0;
  #onCaughtUp: (() => void) | null = null;
  #onOutput: () => void = () => undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Kills the shell. `follow` then returns. */
  async end(): Promise<void> {
    await callAgent(`${agent}/Process/SendSignal`, { process: this.#selector, signal: 'SIGNAL_SIGKILL' });
  }

  /**
   * Shows the tab's shell, or starts one, until it ends. Calls `started` when the shell accepts keys.
   * @throws {PageError} `disconnected` and others; the shell may still run
   */
  async follow(started: () => void): Promise<void> {
    const known = sessionStorage.getItem('shell');
    if (known === null || !(await this.#continue(known, started))) await this.#start(started);
    sessionStorage.removeItem('shell');
  }

  async type(text: string): Promise<void> {
    await callAgent(`${agent}/Process/SendInput`, { process: this.#selector, input: { pty: toBase64(text) } });
  }

  async resize(size: TerminalSize): Promise<void> {
    await callAgent(`${agent}/Process/Update`, { process: this.#selector, pty: { size } });
  }

  get #selector(): { tag: string } {
    return { tag: sessionStorage.getItem('shell') ?? '' };
  }

  get #size(): TerminalSize {
    const { cols, rows } = this.#terminal;
    return { cols, rows };
  }

  async #start(started: () => void): Promise<void> {
    const tag = `web-terminal-${crypto.randomUUID()}`;
    const process = { cmd: 'sh', args: loginShell, envs: { TERM: 'xterm-256color', COLORTERM: 'truecolor' } };
    sessionStorage.setItem('shell', tag);
    const size = this.#size;
    const request = { process, pty: { size }, tag };
    const startedAtSize = () => {
      started();
      // The window may have been resized since the request was sent.
      if (this.#size.cols !== size.cols || this.#size.rows !== size.rows) this.#resizeQuietly();
    };
    try {
      await this.#show(streamFromAgent(`${agent}/Process/Start`, request, silenceMs), startedAtSize);
    } catch (error) {
      // After a refused start there is no shell. After a lost connection there may be one, so its tag is kept.
      if (!(error instanceof PageError) || !isPassing(error)) sessionStorage.removeItem('shell');
      throw error;
    }
  }

  /** Follows an existing shell. False: the shell is gone. */
  async #continue(tag: string, started: () => void): Promise<boolean> {
    const events = streamFromAgent(`${agent}/Process/Connect`, { process: { tag } }, silenceMs);
    try {
      await this.#show(events, () => {
        started();
        // A program redraws its screen when the size changes. This page may have lost what the program had drawn. A busy
        // program that sees only the second change sees no change at all.
        const { cols, rows } = this.#size;
        const redrawn = this.#outputWithin(redrawMs);
        this.resize({ cols, rows: Math.max(rows - 1, 1) })
          .then(() => redrawn)
          .then(
            () => this.#resizeQuietly(),
            () => undefined,
          );
      });
      return true;
    } catch (error) {
      if (!(error instanceof PageError) || error.code !== 'not_found') throw error;
      this.#terminal.write('\r\n\x1b[2m[the earlier shell is gone; this is a new one]\x1b[0m\r\n');
      return false;
    }
  }

  #outputWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#onOutput = resolve;
      setTimeout(resolve, ms);
    });
  }

  /** If the resize fails, the stream of the shell reports the failure. */
  #resizeQuietly(): void {
    this.resize(this.#size).catch(() => undefined);
  }

  async #show(messages: AsyncGenerator<Record<string, unknown>>, started: () => void): Promise<void> {
    for await (const message of messages) {
      const { start, data, end } = toFields(message.event);
      if (start) started();
      const { pty } = toFields(data);
      if (typeof pty === 'string') await this.#write(fromBase64(pty));
      if (end) {
        const { exitCode, error } = toFields(end);
        const reason = typeof error === 'string' && error !== '' ? `: ${visibleText(error, 100)}` : '';
        this.#terminal.write(`\r\n\x1b[2m[ended with ${Number(exitCode ?? 0)}${reason}]\x1b[0m\r\n`);
        return;
      }
    }
    throw new PageError('disconnected', 'The connection broke off');
  }

  /** Resolves when more output may be read. */
  #write(bytes: Uint8Array): Promise<void> | undefined {
    this.#onOutput();
    this.#waitingBytes += bytes.length;
    this.#terminal.write(bytes, () => {
      this.#waitingBytes -= bytes.length;
      if (this.#waitingBytes <= lowWaterBytes) this.#onCaughtUp?.();
    });
    if (this.#waitingBytes < highWaterBytes) return undefined;
    return new Promise((resolve) => {
      this.#onCaughtUp = resolve;
    });
  }
}
