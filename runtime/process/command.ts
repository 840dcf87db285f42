import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { withMachineCertificates } from '../../platform/config/machine-certificates.mjs';

/** A program failed. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly exitCode: number | null;
  /** The last 4 KiB it wrote to standard error. */
  readonly stderr: string;

  constructor(command: string, exitCode: number | null, stderr: string) {
    super(`${command} ended with ${exitCode ?? 'a signal'}: ${stderr.trim() || 'no message'}`);
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

export interface CommandOptions {
  /** Written to standard input. */
  input?: string;
  cwd?: string;
  signal?: AbortSignal;
  timeoutSeconds?: number;
  /** Called with each line of standard error. */
  onLine?: (line: string) => void;
  /** After an abort, wait until every process has closed the program's output, which is later than the signal. */
  awaitClose?: boolean;
}

const stdoutLimitBytes = 16 * 1024 * 1024;
const stderrTailLength = 4096;

/**
 * The variables that programs need. Other variables of this process contain the platform's secrets, so they are not
 * passed on.
 */
const passedOn =
  /^(PATH|HOME|TMPDIR|LANG|XDG_.*|REGISTRY_AUTH_FILE|PIP_INDEX_URL|SOURCE_DATE_EPOCH|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(https?|no|all)_proxy)$/i;

function plainEnvironment(): NodeJS.ProcessEnv {
  const passed = Object.entries(process.env).filter(([name]) => passedOn.test(name));
  return { ...withMachineCertificates(Object.fromEntries(passed)), LC_ALL: 'C' };
}

/**
 * Runs a program to its end and returns its standard output.
 * @throws {CommandError} when it fails, is killed by the time limit, or cannot be started
 */
export async function runCommand(command: string, args: string[], options: CommandOptions = {}): Promise<string> {
  const child = spawn(command, args, {
    env: plainEnvironment(),
    cwd: options.cwd,
    signal: options.signal,
    killSignal: 'SIGKILL',
    timeout: options.timeoutSeconds === undefined ? undefined : options.timeoutSeconds * 1000,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  let stderr = '';
  const keep = (text: string) => {
    stderr = (stderr + text).slice(-stderrTailLength);
  };
  if (options.onLine) {
    createInterface({ input: child.stderr! }).on('line', (line) => {
      keep(`${line}\n`);
      options.onLine!(line);
    });
  } else child.stderr!.setEncoding('utf8').on('data', keep);
  const stdout: Buffer[] = [];
  let stdoutBytes = 0;
  child.stdout!.on('data', (chunk: Buffer) => {
    stdoutBytes += chunk.length;
    if (stdoutBytes <= stdoutLimitBytes) stdout.push(chunk);
    else child.kill('SIGKILL');
  });
  if (options.input !== undefined) {
    // If a program ends before it has read its whole input, its exit code explains that.
    child.stdin!.on('error', () => {});
    child.stdin!.end(options.input);
  }
  return new Promise((resolve, reject) => {
    let aborted: Error | null = null;
    child.once('error', (error) => {
      if (error.name !== 'AbortError') reject(new CommandError(command, null, error.message));
      else if (options.awaitClose) aborted = error;
      else reject(error);
    });
    child.once('close', (code) => {
      if (aborted) reject(aborted);
      else if (code === 0) resolve(Buffer.concat(stdout).toString('utf8'));
      else reject(new CommandError(command, code, stderr));
    });
  });
}
