import fs from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { resolvePath } from '../filesystem/path.ts';
import {
  type ProcessConfig,
  ProcessConfigSchema,
  type ProcessSelector,
  type StartRequest,
} from '../proto/gen/sandboxagent_pb.js';
import { isSystemError, toConnectError } from '../rpc/errors.ts';
import { launchWithPipes } from './launch.ts';
import { RunningProcess } from './running-process.ts';

/** The processes started through the agent that have not ended. */
export class ProcessTable {
  private readonly environment: AgentEnvironment;
  private readonly byPid = new Map<number, RunningProcess>();

  constructor(environment: AgentEnvironment) {
    this.environment = environment;
  }

  list(): RunningProcess[] {
    return [...this.byPid.values()];
  }

  /** @throws {ConnectError} `not_found`; of several with one tag, the newest is meant */
  find(selector: ProcessSelector['selector']): RunningProcess {
    const found =
      selector.case === 'pid'
        ? this.byPid.get(selector.value)
        : this.list().findLast((process) => process.tag === selector.value);
    if (!found) throw new ConnectError(`process ${selector.case} ${selector.value} not found`, Code.NotFound);
    return found;
  }

  /**
   * Starts a process in a session of its own.
   * @throws {ConnectError} `invalid_argument` for a wrong cwd or malformed words, `not_found` for a missing command,
   * `permission_denied` for one that may not be run
   */
  async start({ process: config, tag }: StartRequest): Promise<RunningProcess> {
    const given = config ?? create(ProcessConfigSchema);
    const cwd = this.workingDirectory(given);
    checkWords(given);
    const env = { ...this.environment.variables(), ...given.envs };
    try {
      const launched = await launchWithPipes({ file: given.cmd, args: given.args, env, cwd });
      const running = new RunningProcess(launched, given, tag, () => this.byPid.delete(launched.pid));
      this.byPid.set(launched.pid, running);
      return running;
    } catch (error) {
      if (isSystemError(error)) throw toConnectError(error, `command ${given.cmd}`);
      throw error;
    }
  }

  private workingDirectory({ cwd }: ProcessConfig): string {
    const home = this.environment.home();
    const resolved = cwd ? resolvePath(cwd, home, 'cwd') : home;
    const stat = fs.statSync(resolved, { throwIfNoEntry: false });
    if (!stat) throw new ConnectError(`cwd ${resolved} not found: no such file or directory`, Code.InvalidArgument);
    if (!stat.isDirectory()) throw new ConnectError(`cwd ${resolved} is not a directory`, Code.InvalidArgument);
    return resolved;
  }
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
