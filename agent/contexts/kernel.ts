import type { Representations, RunError, RunOutput } from './run-output.ts';

/** One interpreter with its state. Runs come one at a time. */
export interface Kernel {
  /**
   * Runs `code` and resolves with how it ended, after everything it put out was written to `output`. Never rejects:
   * a kernel that died, before or during the run, is an error outcome and says so.
   */
  execute(run: Run, output: RunOutput): Promise<Outcome>;

  /** Asks the code that runs to stop, as Ctrl-C would. */
  interrupt(): void;

  /** Ends the interpreter at once; a run in progress ends with an error. */
  kill(): void;

  /** Ends the interpreter and every process of its group, and removes its files. */
  close(): Promise<void>;
}

export interface Run {
  code: string;
  /** Set for this run only, over the context's environment. */
  envVars: Record<string, string>;
  startedAt: Date;
  /** How many runs the context has had, this one included. */
  count: number;
}

export type Outcome =
  | { ok: true; exitCode: number; value: Representations; executionCount?: number }
  | { ok: false; error: RunError };

/** What a kernel is started with. */
export interface KernelStart {
  cwd: string;
  env: Record<string, string>;
  /** Folder of the scripts that run in the kernels' processes. */
  scripts: string;
  /** The Node that runs JavaScript and TypeScript. */
  node: string;
  /** Aborted when no client waits for the start any more. */
  signal: AbortSignal;
}

/** The error of a run whose kernel has died. */
export function kernelDied(language: string, how: string, lastWords: string): RunError {
  const memory = how.includes('SIGKILL') ? ' (often for lack of memory)' : '';
  return {
    name: 'KernelDied',
    value: `the ${language} kernel died: ${how}${memory}; its state is lost, destroy the context and create another`,
    traceback: lastWords,
  };
}
