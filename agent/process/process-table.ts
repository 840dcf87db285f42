import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { resolvePath, statPath } from '../filesystem/path.ts';
import {
  type ProcessConfig,
  ProcessConfigSchema,
  type ProcessSelector,
  type PTY,
  type StartRequest,
} from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError, toConnectError } from '../rpc/errors.ts';
import { findIdentity, type Identity } from './identity.ts';
import { launchOnTerminal, launchWithPipes } from './launch.ts';
import { RunningProcess } from './running-process.ts';

const defaultColumns = 80;
const defaultRows = 24;
const maxSide = 65_535;
/** How long the ends of processes are kept, of how many processes, and with how much untaken output in all. */
const endedKeptMs = 10 * 60_000;
const endedKept = 64;
const endedOutputBytes = 16 * 1024 * 1024;

/** What the headers of a start say. */
export interface StartOptions {
  endsWith: 'group' | 'leader';
  /** A user of the sandbox, by name or number. Undefined: the agent's own. */
  user: string | undefined;
  /** Variables below those of the request. */
  env?: Record<string, string>;
  /** The process group is killed after this time, in milliseconds. */
  killAfterMs?: number;
}

/** The processes started through the agent. */
export class ProcessTable {
  readonly #environment: AgentEnvironment;
  readonly #running = new Map<number, RunningProcess>();
  readonly #ended = new Map<number, RunningProcess>();

  constructor(environment: AgentEnvironment) {
    this.#environment = environment;
  }

  list(): RunningProcess[] {
    return [...this.#running.values()];
  }

  /** Finds the newest process with a tag. @throws {ConnectError} `not_found` */
  find(selector: ProcessSelector | undefined): RunningProcess {
    const found = pick(this.#running, selector);
    if (found) return found;
    throw notFound(selector!);
  }

  /** The process to follow: a running one, or one that ended not long ago. @throws {ConnectError} `not_found` */
  findToFollow(selector: ProcessSelector | undefined): RunningProcess {
    const found = pick(this.#running, selector) ?? pick(this.#ended, selector);
    if (found) return found;
    throw notFound(selector!);
  }

  /**
   * Starts a process in its own session, with pipes or on a terminal. `endsWith`: see `RunningProcess`.
   * @throws {ConnectError} `invalid_argument` for an unknown user, a wrong cwd or malformed words, `not_found` for a missing command,
   * `permission_denied` for a command that may not be executed
   */
  async start({ process: given, pty, tag, stdin }: StartRequest, options: StartOptions): Promise<RunningProcess> {
    const { endsWith, user, killAfterMs } = options;
    const config = given ?? create(ProcessConfigSchema);
    checkWords(config);
    const identity = user === undefined ? undefined : otherIdentity(user);
    const cwd = await this.#workingDirectory(config, identity?.env.HOME ?? this.#environment.home());
    const env: Record<string, string> = {
      ...{ ...this.#environment.variables(), ...identity?.env },
      ...{ ...options.env, ...config.envs },
    };
    const searchPath = this.#environment.searchPath(env);
    const program = { command: config.cmd, args: config.args, env, searchPath, cwd, identity };
    try {
      let launched: Awaited<ReturnType<typeof launchWithPipes>>;
      if (pty) {
        const { columns, rows } = terminalSize(pty);
        env.TERM ??= 'xterm-256color';
        launched = await launchOnTerminal(program, columns, rows);
      } else launched = await launchWithPipes(program, { hasInput: stdin !== false });
      const running = new RunningProcess(launched, config, tag, endsWith, () => this.#onEnd(running));
      this.#ended.delete(launched.pid);
      this.#running.set(launched.pid, running);
      if (killAfterMs !== undefined) setTimeout(() => this.#killIfRunning(running), killAfterMs).unref();
      return running;
    } catch (error) {
      if (isSystemError(error)) throw toConnectError(error, `command ${config.cmd}`);
      throw error;
    }
  }

  #killIfRunning(process: RunningProcess): void {
    if (this.#running.get(process.pid) === process) process.kill();
  }

  #onEnd(process: RunningProcess): void {
    this.#running.delete(process.pid);
    this.#ended.set(process.pid, process);
    let outputBytes = [...this.#ended.values()].reduce((sum, { untakenBytes }) => sum + untakenBytes, 0);
    for (const [pid, { untakenBytes }] of this.#ended) {
      if (this.#ended.size <= endedKept && outputBytes <= endedOutputBytes) break;
      this.#ended.delete(pid);
      outputBytes -= untakenBytes;
    }
    setTimeout(() => {
      if (this.#ended.get(process.pid) === process) this.#ended.delete(process.pid);
    }, endedKeptMs).unref();
  }

  async #workingDirectory({ cwd }: ProcessConfig, home: string): Promise<string> {
    if (!cwd) return home;
    const resolved = resolvePath(cwd, home, 'cwd');
    try {
      if ((await statPath(resolved)).isDirectory()) return resolved;
    } catch (error) {
      throw new ConnectError(`cwd ${toConnectError(error, resolved).rawMessage}`, Code.InvalidArgument);
    }
    throw new ConnectError(`cwd ${resolved}: not a directory`, Code.InvalidArgument);
  }
}

/** The user, unless it is the agent's own. @throws {ConnectError} `invalid_argument` */
function otherIdentity(user: string): Identity | undefined {
  try {
    const identity = findIdentity(user);
    return identity.uid === process.getuid!() ? undefined : identity;
  } catch (error) {
    if (error instanceof TypeError) throw new ConnectError(error.message, Code.InvalidArgument);
    throw error;
  }
}

function pick(
  processes: Map<number, RunningProcess>,
  selector: ProcessSelector | undefined,
): RunningProcess | undefined {
  const chosen = selector?.selector;
  if (chosen?.case === 'pid') return processes.get(chosen.value);
  if (chosen?.case === 'tag') return [...processes.values()].findLast(({ tag }) => tag === chosen.value);
  throw new ConnectError('process must be given by pid or tag', Code.InvalidArgument);
}

function notFound({ selector }: ProcessSelector): ConnectError {
  return new ConnectError(`process with ${selector.case} ${selector.value} not found`, Code.NotFound);
}

/** The terminal's size. The default is 80 by 24. @throws {ConnectError} */
export function terminalSize({ size }: PTY): { columns: number; rows: number } {
  const columns = size?.cols || defaultColumns;
  const rows = size?.rows || defaultRows;
  if (columns > maxSide || rows > maxSide) throw new ConnectError('terminal size out of range', Code.InvalidArgument);
  return { columns, rows };
}

function checkWords({ cmd, args, envs }: ProcessConfig): void {
  if (cmd === '') throw new ConnectError('cmd must not be empty', Code.InvalidArgument);
  const words = [cmd, ...args, ...Object.keys(envs), ...Object.values(envs)];
  if (words.some((word) => word.includes('\0'))) {
    throw new ConnectError('cmd, args and envs must not contain NUL', Code.InvalidArgument);
  }
  if (Object.keys(envs).some((name) => name === '' || name.includes('='))) {
    throw new ConnectError('names of envs must not be empty or contain "="', Code.InvalidArgument);
  }
}
