import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { RotatingLog } from './rotating-log.ts';

export interface ProgramOptions {
  /** As it is called in logs and errors: `temporal-server`. */
  name: string;
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Everything it prints goes here, bounded. */
  logFile: string;
  /** Options of setpriv(1) to run it with less than our rights. */
  privileges?: readonly string[];
  /** What asks it to stop. */
  stopSignal?: NodeJS.Signals;
  /** How long it may take to stop before it is killed. */
  stopTimeoutMs?: number;
  /** Each line of its standard output. */
  onLine?: (line: string) => void;
}

/** A program of ours that ended, or did not get ready. The text carries the end of its log. */
export class ProgramError extends Error {
  override name = 'ProgramError';
}

/**
 * A program that lives no longer than the process that started it: the kernel tells it to stop when we are gone
 * (PR_SET_PDEATHSIG), even after a SIGKILL. It has a session of its own, so that Ctrl-C on the terminal reaches us
 * alone and we stop everything in order.
 */
export class ChildProgram {
  readonly name: string;
  readonly pid: number;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #child: ChildProcess;
  readonly #options: ProgramOptions;
  /** Its output is in the log. May come late: what it started can hold its output open. */
  readonly #drained: Promise<unknown>;
  #hasEnded = false;

  private constructor(options: ProgramOptions, child: ChildProcess, pid: number) {
    this.name = options.name;
    this.pid = pid;
    this.#options = options;
    this.#child = child;
    const log = new RotatingLog(options.logFile);
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (chunk: Buffer) => log.write(chunk));
    if (options.onLine) createInterface(child.stdout!).on('line', options.onLine);
    this.#drained = once(child, 'close').then(() => log.close());
    this.ended = once(child, 'exit').then(([code, signal]) => {
      this.#hasEnded = true;
      return { code, signal };
    });
  }

  /** @throws {ProgramError} when it cannot be executed at all */
  static async start(options: ProgramOptions): Promise<ChildProgram> {
    const privileges = [...(options.privileges ?? []), '--pdeathsig', options.stopSignal ?? 'SIGTERM'];
    const child = spawn('setpriv', [...privileges, '--', options.command, ...options.args], {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    try {
      await once(child, 'spawn');
    } catch (cause) {
      throw new ProgramError(`${options.name} could not be started: setpriv(1) of util-linux is needed`, { cause });
    }
    return new ChildProgram(options, child, child.pid!);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /**
   * Asks again and again; a rejection counts as "not yet".
   * @throws {ProgramError} when the program ends first or the time is over
   */
  async whenReady<Answer>(ask: () => Promise<Answer>, timeoutMs = 60_000): Promise<Answer> {
    const deadline = Date.now() + timeoutMs;
    let lastRefusal: unknown;
    for (;;) {
      try {
        return await ask();
      } catch (refusal) {
        lastRefusal = refusal;
      }
      if (this.#hasEnded) {
        await Promise.race([this.#drained, delay(1000)]);
        throw new ProgramError(`${this.name} ended while starting:\n${this.#logTail()}`);
      }
      if (Date.now() > deadline) {
        throw new ProgramError(`${this.name} was not ready in ${timeoutMs / 1000} s:\n${this.#logTail()}`, {
          cause: lastRefusal,
        });
      }
      await delay(50);
    }
  }

  /** Stops it with its signal, and with SIGKILL when it takes too long. Safe to call again. */
  async stop(): Promise<void> {
    if (this.#hasEnded) return;
    this.#child.kill(this.#options.stopSignal ?? 'SIGTERM');
    const killer = setTimeout(() => this.#child.kill('SIGKILL'), this.#options.stopTimeoutMs ?? 10_000);
    await this.ended;
    clearTimeout(killer);
  }

  #logTail(): string {
    return fs.readFileSync(this.#options.logFile, 'utf8').slice(-2000);
  }
}
