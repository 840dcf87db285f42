import { Code } from '@connectrpc/connect';
import { ConnectError } from '../rpc/connect-error.ts';
import type { ExecutionOutput } from './execution-output.ts';
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

type ExecutionRequest = Pick<Execution, 'code' | 'envVars' | 'wantsData'>;

/** One interpreter and its waiting executions. */
export class Context {
  readonly info: ContextInfo;
  readonly language: KernelLanguage;
  readonly #kernel: Kernel;
  readonly #interruptGraceMs: number;
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

  get dead(): boolean {
    return this.#dead_ || this.#closed;
  }

  /**
   * Runs code after the earlier executions have ended. Writes its output to `output`, and the main result or the error
   * last. When `signal` aborts, the execution is interrupted or not started, and has no result.
   */
  run(request: ExecutionRequest, output: ExecutionOutput, signal: AbortSignal): void {
    this.#queue = this.#queue.then(() => this.#executeNow(request, output, signal));
  }

  /** Ends the interpreter and all processes of its group. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#kernel.close();
  }

  async #executeNow(request: ExecutionRequest, output: ExecutionOutput, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { code, envVars, wantsData } = request;
    const startedAt = new Date();
    const count = ++this.#executions;
    let escalation: NodeJS.Timeout | undefined;
    const interrupt = () => {
      this.#kernel.interrupt();
      escalation = setTimeout(() => this.#kernel.kill(), this.#interruptGraceMs);
    };
    signal.addEventListener('abort', interrupt);
    const outcome = await this.#kernel.execute({ code, envVars, wantsData, startedAt, count }, output);
    signal.removeEventListener('abort', interrupt);
    clearTimeout(escalation);
    if (!outcome.ok && outcome.error.name === 'KernelDied') this.#dead_ = true;
    this.#report(outcome, output, startedAt, count);
  }

  #report(outcome: Outcome, output: ExecutionOutput, startedAt: Date, count: number): void {
    if (this.#closed) {
      const value = 'the context was destroyed while it ran this code';
      output.push({ type: 'error', error: { name: 'ContextDestroyed', value, traceback: '' } });
    } else if (outcome.ok) {
      output.push({
        type: 'result',
        result: {
          ...outcome.value,
          exitCode: outcome.exitCode,
          startedAt,
          finishedAt: new Date(),
          executionCount: outcome.executionCount ?? count,
          isMainResult: true,
        },
      });
    } else output.push({ type: 'error', error: outcome.error });
    output.finish();
  }
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
