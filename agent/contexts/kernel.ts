import type { ExecutionError, ExecutionOutput, Representations } from './execution-output.ts';

/** One interpreter with its state. It runs one execution at a time. */
export interface Kernel {
  /**
   * Runs `code` and resolves with its outcome, after its whole output was written to `output`. Never rejects: if the
   * kernel has died, before or during the execution, the outcome is an error with that explanation.
   */
  execute(execution: Execution, output: ExecutionOutput): Promise<Outcome>;

  /** Asks the running code to stop, as Ctrl-C does. */
  interrupt(): void;

  /** Ends the interpreter at once. An execution in progress ends with an error. */
  kill(): void;

  /** Ends the interpreter and all processes of its group, and removes its files. */
  close(): Promise<void>;
}

export interface Execution {
  code: string;
  /** Variables of this execution only. They override those of the context. */
  envVars: Record<string, string>;
  startedAt: Date;
  /** The caller asks for `data` of tables. */
  wantsData: boolean;
  /** The caller asks for `json` of Python's lists and dictionaries. */
  wantsJson: boolean;
  /** The number of executions in the context so far, including this one. */
  count: number;
}

export type Outcome =
  | { ok: true; exitCode: number; value: Representations; executionCount?: number }
  | { ok: false; error: ExecutionError; executionCount?: number };

/** The parameters of a kernel's start. */
export interface KernelStart {
  cwd: string;
  env: Record<string, string>;
  /** Where interpreters are searched. */
  searchPath: string;
  /** The folder of the scripts that run in the kernels' processes. */
  scripts: string;
  /** The Node binary for JavaScript and TypeScript. */
  node: string;
  /** Aborted when no client waits for the start any more. */
  signal: AbortSignal;
}

/** The error of an execution after the death of its kernel. */
export function kernelDied(language: string, how: string, lastWords: string): ExecutionError {
  const memory = how.includes('SIGKILL') ? ' (often for lack of memory)' : '';
  return {
    name: 'KernelDied',
    value: `the ${language} kernel died: ${how}${memory}; its state is lost, destroy the context and create another`,
    traceback: lastWords,
  };
}
