import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessRecord } from './process-record.ts';
import { openProgramLog, type ProgramLog } from './program-log.ts';

/** The files of the programs of one data folder. */
export interface ProgramHome {
  /** The output of each program goes to `<logDir>/<name>.log`, which is bounded. Null: to systemd's journal. */
  logDir: string | null;
  /** Records the running program, so that the next start can end it if this process crashes. */
  record?: ProcessRecord;
  /** When it aborts, programs that are still starting give up. */
  stopping?: AbortSignal;
}

export interface ProgramOptions {
  /** The program's name in logs and errors, such as `temporal-server`. */
  name: string;
  command: string;
  args: readonly string[];
  home: ProgramHome;
  /** Empty: the variables that any program needs, without the platform's settings. */
  env?: NodeJS.ProcessEnv;
  /** Options of setpriv(1) that reduce the program's rights. */
  privileges?: readonly string[];
  /** The signal that asks it to stop. */
  stopSignal?: NodeJS.Signals;
  /** The time limit of the stop before the program is killed. */
  stopTimeoutMs?: number;
  /** Called with each line of its standard output. */
  onLine?: (line: string) => void;
}

export interface ProgramEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A program ended during its start, or did not become ready. The message contains the end of its log. */
export class ProgramError extends Error {
  override name = 'ProgramError';
}

/** A start takes a second, and minutes on a busy emulated machine. The limit is for programs that hang. */
const startMs = 600_000;

/**
 * A program that ends with the process that started it: the kernel sends it a signal when this process dies
 * (PR_SET_PDEATHSIG), even after a SIGKILL. It has a session of its own, so that Ctrl-C on the terminal only reaches
 * this process, which stops everything in order.
 */
export class ChildProgram {
  readonly pid: number;
  readonly ended: Promise<ProgramEnd>;
  readonly #options: ProgramOptions;
  readonly #child: ChildProcess;
  readonly #log: ProgramLog;
  /** Resolves when its output is in the log. That may be late, because its children can keep the output open. */
  readonly #drained: Promise<unknown>;
  #hasEnded = false;

  private constructor(options: ProgramOptions, child: ChildProcess, pid: number) {
    this.pid = pid;
    this.#options = options;
    this.#child = child;
    this.#log = openProgramLog(options.name, options.home.logDir);
    for (const stream of [child.stdout!, child.stderr!]) this.#log.follow(stream);
    if (options.onLine) createInterface(child.stdout!).on('line', options.onLine);
    this.#drained = once(child, 'close').then(() => this.#log.close());
    options.home.record?.add(options.name, pid);
    this.ended = once(child, 'exit').then(([code, signal]) => {
      this.#hasEnded = true;
      options.home.record?.remove(pid);
      return { code, signal };
    });
  }

  /** @throws {ProgramError} when it cannot be executed */
  static async start(options: ProgramOptions): Promise<ChildProgram> {
    const privileges = [...(options.privileges ?? []), '--pdeathsig', options.stopSignal ?? 'SIGTERM'];
    const child = spawn('setpriv', [...privileges, '--', options.command, ...options.args], {
      env: options.env ?? plainEnvironment(),
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

  /**
   * Repeats `ask` until it resolves. A rejection counts as "not yet". If the program does not become ready, it is
   * stopped.
   * @throws {ProgramError} when it ends first, the time is over, or everything is being stopped
   */
  async whenReady<Answer>(ask: () => Promise<Answer>, timeoutMs = startMs): Promise<Answer> {
    const over = new AbortController();
    let lastRefusal: unknown;
    const answered = async () => {
      for (;;) {
        try {
          return await ask();
        } catch (refusal) {
          lastRefusal = refusal;
        }
        await delay(50, undefined, { signal: over.signal });
      }
    };
    const failed = async (): Promise<never> => {
      const { stopping } = this.#options.home;
      const timedOut = delay(timeoutMs, undefined, { signal: over.signal });
      const end = await Promise.race([this.ended, timedOut, ...(stopping ? [whenAborted(stopping)] : [])]);
      if (!end) await this.stop();
      await Promise.race([this.#drained, delay(1000)]);
      const notReady = stopping?.aborted ? 'was stopped while starting' : `was not ready in ${timeoutMs / 1000} s`;
      const what = end ? `ended while starting (${describeEnd(end)})` : notReady;
      throw new ProgramError(`${this.#options.name} ${what}:\n${this.logTail()}`, { cause: lastRefusal });
    };
    try {
      return await Promise.race([answered(), failed()]);
    } finally {
      over.abort();
    }
  }

  /** Stops it with its signal, and with SIGKILL if it takes too long. May be called again. */
  async stop(): Promise<void> {
    if (this.#hasEnded) return;
    this.#child.kill(this.#options.stopSignal ?? 'SIGTERM');
    const killer = setTimeout(() => this.#child.kill('SIGKILL'), this.#options.stopTimeoutMs ?? 10_000);
    await this.ended;
    clearTimeout(killer);
  }

  /** The end of its output. */
  logTail(): string {
    return this.#log.tail();
  }
}

/**
 * The variables of this process's environment that any program needs. The others may contain the platform's secrets.
 */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const { PATH, HOME, LANG, TZ } = process.env;
  return { PATH, HOME, LANG, TZ };
}

export function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}

/** A text for people: `code 1`, `SIGKILL`. */
export function describeEnd({ code, signal }: ProgramEnd): string {
  return signal ?? `code ${code}`;
}
