import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { findExecutable } from '../process/find-executable.ts';
import { findIdentity } from '../process/identity.ts';
import { endBeforeAgent } from '../process/oom-score.ts';
import type { AgentEnvironment } from './environment.ts';
import type { SandboxInit } from './sandbox-state.ts';

const tailBytes = 8 * 1024;
const tailWriteMs = 100;

/** A command line, its folder and its user. */
export interface CommandLine {
  words: string[];
  cwd?: string;
  user?: string;
}

/**
 * Starts `words` in a session of their own, with the sandbox's environment. Errors arrive as the child's `error` event.
 */
export function spawnWords(line: CommandLine, environment: AgentEnvironment): ChildProcess {
  const identity = line.user === undefined ? undefined : findIdentity(line.user);
  const env = { ...environment.variables(), ...identity?.env };
  const [command, ...args] = line.words as [string, ...string[]];
  const file = command.includes('/') ? command : findExecutable(command, environment.searchPath(env));
  const child = spawn(file ?? command, args, {
    argv0: command,
    cwd: line.cwd ?? environment.home(),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    ...(identity && { uid: identity.uid, gid: identity.gid }),
  });
  if (child.pid !== undefined) endBeforeAgent(child.pid);
  return child;
}

/**
 * The template's command, which runs once. The last 8 KiB of its output are kept in memory and in a file, which the
 * host reads after the sandbox has ended.
 */
export class SandboxCommand {
  readonly #child: ChildProcess;
  readonly #tailFile: string;
  #tail: Buffer = Buffer.alloc(0);
  #tailTimer: NodeJS.Timeout | undefined;
  #exitCode: number | null = null;
  #running = true;

  constructor(init: SandboxInit, environment: AgentEnvironment, tailFile: string) {
    this.#tailFile = tailFile;
    const { entrypoint, cmd } = init.command!;
    this.#child = spawnWords({ words: [...entrypoint, ...cmd], cwd: init.cwd, user: init.user }, environment);
    this.#child.stdout!.on('data', (chunk: Buffer) => this.#append(chunk));
    this.#child.stderr!.on('data', (chunk: Buffer) => this.#append(chunk));
    this.#child.on('error', (error) => {
      this.#append(Buffer.from(`${error.message}\n`));
      this.#end(127);
    });
    this.#child.on('exit', (code, signal) => this.#end(code ?? 128 + (signalNumbers[signal ?? ''] ?? 0)));
    // Lines that were written between the exit and the end of the pipes also belong to the tail.
    this.#child.on('close', () => this.#writeTail());
  }

  /** The state for `GET /platform/state`. */
  state(): { pid: number; running: boolean; exitCode: number | null; outputTail: string } {
    return {
      pid: this.#child.pid ?? 0,
      running: this.#running,
      exitCode: this.#exitCode,
      outputTail: this.#tail.toString('base64'),
    };
  }

  #end(exitCode: number): void {
    this.#running = false;
    this.#exitCode = exitCode;
    this.#writeTail();
  }

  #append(chunk: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-tailBytes)]).subarray(-tailBytes);
    this.#tailTimer ??= setTimeout(() => this.#writeTail(), tailWriteMs).unref();
  }

  #writeTail(): void {
    clearTimeout(this.#tailTimer);
    this.#tailTimer = undefined;
    try {
      fs.mkdirSync(path.dirname(this.#tailFile), { recursive: true });
      fs.writeFileSync(this.#tailFile, this.#tail);
    } catch (error) {
      console.error(`agent: the command's tail is not kept in ${this.#tailFile}:`, (error as Error).message);
    }
  }
}

const signalNumbers: Record<string, number> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGABRT: 6,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGTERM: 15,
};
