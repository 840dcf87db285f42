import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { SandboxId } from '../../../domain/ids.ts';
import type { DriverErrorCode } from '../../../runtime/driver.ts';
import type { Call, Message, ProgramOptions } from './driver-program.ts';

const openTimeoutMs = 60_000;

/** The failure of a call to the driver. `code` is null if the driver's process ended or the error is no DriverError. */
export class CallFailed extends Error {
  override name = 'CallFailed';
  readonly code: DriverErrorCode | null;
  readonly retryable: boolean;

  constructor(message: string, code: DriverErrorCode | null = null, retryable = true) {
    super(message);
    this.code = code;
    this.retryable = retryable;
  }
}

/** A driver in a separate process, which can be killed and started again. */
export class DriverProcess {
  /** The ends of sandboxes that the driver has reported, including those of earlier processes. */
  readonly ends: { sandboxId: SandboxId; run: number | null; reason: string }[] = [];
  readonly warnings: string[] = [];
  readonly #options: ProgramOptions;
  readonly #calls = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  #child: ChildProcess | null = null;
  #nextId = 1;
  #opened: Promise<void> = Promise.resolve();

  constructor(options: ProgramOptions) {
    this.#options = options;
  }

  /** Starts the process, also after its end. Returns when the driver has listed its sandboxes. */
  start(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#opened = promise;
    promise.catch(() => {});
    const child = fork(path.join(import.meta.dirname, 'driver-program.ts'), [JSON.stringify(this.#options)], {
      env: { ...process.env, NODE_OPTIONS: '' },
      execArgv: ['--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    });
    this.#child = child;
    let complaints = '';
    child.stderr!.setEncoding('utf8').on('data', (text) => {
      complaints = `${complaints}${text}`.slice(-3000);
    });
    const timer = setTimeout(() => reject(new Error(`the driver did not open in time: ${complaints}`)), openTimeoutMs);
    child.on('message', (message: Message) => {
      if ('ready' in message) resolve();
      else this.#hear(message);
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      const end = new CallFailed(`the driver's process ended (${code ?? signal}): ${complaints}`);
      reject(end);
      if (signal !== 'SIGKILL') this.warnings.push(end.message);
      for (const { reject: fail } of this.#calls.values()) fail(end);
      this.#calls.clear();
    });
    return promise.finally(() => clearTimeout(timer));
  }

  /** Kills the process with SIGKILL. Calls in progress fail. */
  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Calls a method of the driver, after a start in progress. @throws {CallFailed} */
  async call<Result>(method: Call['method'], argument: unknown = null): Promise<Result> {
    await this.#opened;
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#calls.set(id, { resolve, reject });
    this.#child!.send({ id, method, argument } satisfies Call, (error) => {
      if (error) reject(new CallFailed(error.message));
    });
    return (await promise) as Result;
  }

  #hear(message: Message): void {
    if ('ended' in message) this.ends.push(message.ended);
    else if ('warning' in message) this.warnings.push(message.warning);
    else if ('id' in message) {
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      if ('error' in message) {
        const { message: text, code, retryable } = message.error;
        call?.reject(new CallFailed(text, code, retryable));
      } else call?.resolve(message.result);
    }
  }
}
