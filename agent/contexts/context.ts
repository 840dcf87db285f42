import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';
import type { ExecuteEvent, ExecutionError, ExecutionOutput } from './execution-output.ts';
import type { Execution, Kernel, Outcome } from './kernel.ts';
import type { KernelLanguage } from './languages.ts';

/** The reply of CreateContext. */
export interface ContextInfo {
  id: string;
  /** The name in the request. */
  language: string;
  cwd: string;
  createdAt: Date;
  envVars: Record<string, string>;
}

type ExecutionRequest = Pick<Execution, 'code' | 'envVars' | 'wantsData' | 'wantsJson'>;

/** One interpreter and its waiting executions. */
export class Context {
  readonly info: ContextInfo;
  readonly language: KernelLanguage;
  readonly #interruptGraceMs: number;
  #kernel: Kernel;
  #restart: Promise<void> | undefined;
  #queue: Promise<void> = Promise.resolve();
  #executions = 0;
  #closed = false;
  /** The kernel died or was ended, so no code can run in this context any more. */
  #dead_ = false;

  /** @param interruptGraceMs how long an interrupted execution may take to end before its kernel is killed */
  constructor(info: ContextInfo, language: KernelLanguage, kernel: Kernel, interruptGraceMs: number) {
    this.info = info;
    this.language = language;
    this.#kernel = kernel;
    this.#interruptGraceMs = interruptGraceMs;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get dead(): boolean {
    return this.#closed || (this.#dead_ && !this.#restart);
  }

  /**
   * Runs code after the earlier executions have ended. Writes its output to `output`, and the main result or the error
   * last. When `signal` aborts, the execution is interrupted or not started, and has no result.
   */
  run(request: ExecutionRequest, output: ExecutionOutput, signal: AbortSignal): void {
    this.#queue = this.#queue.then(() => this.#executeNow(request, output, signal));
  }

  /**
   * Replaces the interpreter by a new one, also if it has died. The code in progress ends with an error, and waiting
   * code runs in the new one. Rejects as `start` does; then the context is dead until a restart succeeds.
   */
  restart(start: () => Promise<Kernel>): Promise<void> {
    this.#restart ??= this.#replaceKernel(start).finally(() => {
      this.#restart = undefined;
    });
    return this.#restart;
  }

  /** Ends the interpreter and all processes of its group. */
  async close(): Promise<void> {
    this.#closed = true;
    // The restart closes its own interpreter.
    await this.#restart?.catch(() => undefined);
    await this.#kernel.close();
  }

  async #replaceKernel(start: () => Promise<Kernel>): Promise<void> {
    this.#dead_ = true;
    await this.#kernel.close();
    if (this.#closed) return;
    this.#kernel = await start();
    this.#executions = 0;
    this.#dead_ = false;
  }

  async #executeNow(request: ExecutionRequest, output: ExecutionOutput, signal: AbortSignal): Promise<void> {
    // If the restart failed, the dead kernel says so.
    await this.#restart?.catch(() => undefined);
    if (signal.aborted) return;
    const kernel = this.#kernel;
    const { code, envVars, wantsData, wantsJson } = request;
    const startedAt = new Date();
    const count = ++this.#executions;
    let escalation: NodeJS.Timeout | undefined;
    const interrupt = () => {
      kernel.interrupt();
      escalation = setTimeout(() => kernel.kill(), this.#interruptGraceMs);
    };
    signal.addEventListener('abort', interrupt);
    const outcome = await kernel.execute({ code, envVars, wantsData, wantsJson, startedAt, count }, output);
    signal.removeEventListener('abort', interrupt);
    clearTimeout(escalation);
    const end = this.#interruption(kernel);
    if (end) output.push({ type: 'error', error: end, executionCount: count });
    else {
      if (!outcome.ok && outcome.error.name === 'KernelDied') this.#dead_ = true;
      output.push(lastEvent(outcome, startedAt, count));
    }
    output.finish();
  }

  /** Why the context itself ended the code that its kernel ran. */
  #interruption(kernel: Kernel): ExecutionError | undefined {
    if (this.#closed) {
      return { name: 'ContextDestroyed', value: 'the context was destroyed while it ran this code', traceback: '' };
    }
    if (!this.#restart && this.#kernel === kernel) return undefined;
    return { name: 'ContextRestarted', value: 'the context was restarted while it ran this code', traceback: '' };
  }
}

function lastEvent(outcome: Outcome, startedAt: Date, count: number): ExecuteEvent {
  const executionCount = outcome.executionCount ?? count;
  if (!outcome.ok) return { type: 'error', error: outcome.error, executionCount };
  const { exitCode, value } = outcome;
  const finishedAt = new Date();
  return { type: 'result', result: { ...value, exitCode, startedAt, finishedAt, executionCount, isMainResult: true } };
}

/** @throws {ConnectError} `invalid_argument` for a variable that a process's environment cannot contain */
export function checkEnvVars(language: KernelLanguage, envVars: Record<string, string>): void {
  for (const [name, value] of Object.entries(envVars)) {
    const valid = language === 'bash' ? /^[A-Za-z_]\w*$/.test(name) : name !== '' && !/[=\0]/.test(name);
    if (!valid || value.includes('\0')) {
      throw new ConnectError(`env_vars: '${name}' cannot be an environment variable`, Code.InvalidArgument);
    }
  }
  if (language === 'java' && Object.keys(envVars).length > 0) {
    throw new ConnectError('env_vars: java cannot change its environment while it runs', Code.InvalidArgument);
  }
}
