import type { Representations, RunError, RunOutput } from './run-output.ts';

/** One interpreter with its state. It executes one run at a time. */
export interface Kernel {
  /**
   * Runs `code` and resolves with its outcome, after its whole output was written to `output`. Never rejects: if the
   * kernel has died, before or during the run, the outcome is an error with that explanation.
   */
  execute(run: Run, output: RunOutput): Promise<Outcome>;

  /** Asks the running code to stop, as Ctrl-C does. */
  interrupt(): void;

  /** Ends the interpreter at once. A run in progress ends with an error. */
  kill(): void;

  /** Ends the interpreter and all processes of its group, and removes its files. */
  close(): Promise<void>;
}

export interface Run {
  code: string;
  /** Variables of this run only. They override those of the context. */
  envVars: Record<string, string>;
  startedAt: Date;
  /** The caller asks for `data` of tables. */
  wantsData: boolean;
  /** The number of runs in the context so far, including this one. */
  count: number;
}

export type Outcome =
  | { ok: true; exitCode: number; value: Representations; executionCount?: number }
  | { ok: false; error: RunError };

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

/** The error of a run after the death of its kernel. */
export function kernelDied(language: string, how: string, lastWords: string): RunError {
  const memory = how.includes('SIGKILL') ? ' (often for lack of memory)' : '';
  return {
    name: 'KernelDied',
    value: `the ${language} kernel died: ${how}${memory}; its state is lost, destroy the context and create another`,
    traceback: lastWords,
  };
}
