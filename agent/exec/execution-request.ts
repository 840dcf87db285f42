/** A command of the platform. Its times are the platform's, and the agent returns them unchanged. */
export interface ExecutionRequest {
  executionId: string;
  /** The argument of `bash -c`. */
  command: string;
  cwd: string;
  /** Overrides variables of the sandbox's environment. */
  env: Record<string, string>;
  /** The standard input of the command. */
  stdin: string;
  /** The user of the execution, in a form that the platform chooses. */
  owner: string;
  startedAt: string;
  deadline: string;
  /** The time from now to the deadline. */
  timeoutMs: number;
}

/** Reads a request from a JSON document. @throws {TypeError} with the name of the wrong field */
export function parseExecutionRequest(document: unknown): ExecutionRequest {
  const given = (document ?? {}) as Record<string, unknown>;
  const text = (name: string): string => {
    const value = given[name];
    if (typeof value !== 'string' || value === '' || value.includes('\0')) {
      throw new TypeError(`${name} must be a text without NUL`);
    }
    return value;
  };
  const { timeoutMs } = given;
  if (typeof timeoutMs !== 'number' || !(timeoutMs > 0)) throw new TypeError('timeoutMs must be positive');
  return {
    executionId: text('runId'),
    command: text('command'),
    cwd: text('cwd'),
    env: environment(given.env ?? {}),
    stdin: typeof given.stdin === 'string' ? given.stdin : '',
    owner: text('owner'),
    startedAt: text('startedAt'),
    deadline: text('deadline'),
    timeoutMs,
  };
}

function environment(given: object): Record<string, string> {
  const entries = Object.entries(given);
  for (const [name, value] of entries) {
    if (name === '' || /[=\0]/.test(name)) throw new TypeError('names in env must not be empty or hold "="');
    if (typeof value !== 'string' || value.includes('\0')) throw new TypeError('env must hold texts without NUL');
  }
  return Object.fromEntries(entries);
}
