import { closeSync } from 'node:fs';
import net from 'node:net';
import { create } from '@bufbuild/protobuf';
import type { AgentEnvironment } from '../boot/environment.ts';
import { type Launched, launchWithPipes } from '../process/launch.ts';
import { RunningProcess } from '../process/running-process.ts';
import { ProcessConfigSchema } from '../proto/gen/sandboxagent_pb.js';
import { EventRing, type ExecEnd } from './event-ring.ts';
import type { ExecutionRequest } from './execution-request.ts';
import { executionVariable, killExecution } from './kill-execution.ts';

/** The longest timer of Node, 25 days. */
const longestTimerMs = 2 ** 31 - 1;

/** The end of an execution. */
export interface ExecutionEnd {
  executionId: string;
  /** Null: it was cancelled, or reached its deadline. */
  exitCode: number | null;
  /** `cancelled` or `deadline_exceeded`. Null: it ended by itself. */
  error: string | null;
  durationMs: number;
}

/**
 * One command from its start to its end, deadline or cancellation. If it ends by itself, its background processes
 * continue.
 */
export class Execution {
  readonly request: ExecutionRequest;
  readonly events: EventRing;
  readonly #process: RunningProcess;
  readonly #deadline: NodeJS.Timeout;
  readonly #onEnd: (end: ExecutionEnd) => void;
  readonly #startedMs: number;
  #killing: Promise<void> | undefined;

  private constructor(
    request: ExecutionRequest,
    { startedMs, launched }: { startedMs: number; launched: Launched },
    onEnd: (end: ExecutionEnd) => void,
  ) {
    this.request = request;
    this.#startedMs = startedMs;
    this.#onEnd = onEnd;
    this.events = new EventRing(launched.pid);
    this.#process = new RunningProcess(launched, create(ProcessConfigSchema), undefined, 'leader', () => {});
    this.#deadline = setTimeout(() => void this.#onDeadline(), Math.min(request.timeoutMs, longestTimerMs));
    void this.#follow();
  }

  /**
   * Starts the command with bash, or with sh in an image without bash.
   * @param cwd an absolute path of a directory
   * @param onEnd called right before the last event, so that a reader of that event can start the next execution
   * @throws errno of execve(2)
   */
  static async start(
    request: ExecutionRequest,
    cwd: string,
    environment: AgentEnvironment,
    onEnd: (end: ExecutionEnd) => void,
  ): Promise<Execution> {
    const env = { ...environment.variables(), ...request.env, [executionVariable]: request.executionId };
    const searchPath = environment.searchPath(env);
    const launch = (command: string) =>
      launchWithPipes({ command, args: ['-c', request.command], env, searchPath, cwd }, { hasInput: true });
    // The command already runs when the launch returns.
    const startedMs = performance.now();
    // Small images, such as Alpine's, have no bash.
    const { stdin, ...launched } = await launch('bash').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return launch('sh');
    });
    feed(stdin!, request.stdin);
    return new Execution(request, { startedMs, launched }, onEnd);
  }

  get hasEnded(): boolean {
    return this.events.lastSequence !== undefined;
  }

  /** Kills every process of the execution. Resolves when its last event is written. */
  cancel(): Promise<void> {
    return this.#kill({ type: 'error', code: 'cancelled', message: 'The command was cancelled' });
  }

  #onDeadline(): Promise<void> {
    return this.#kill({ type: 'error', code: 'deadline_exceeded', message: 'The command ran to its deadline' });
  }

  #kill(end: ExecEnd): Promise<void> {
    this.#killing ??= killExecution(this.#process.pid, this.request.executionId).then(() => this.#finish(end));
    return this.#killing;
  }

  #finish(end: ExecEnd): void {
    if (this.hasEnded) return;
    clearTimeout(this.#deadline);
    this.#onEnd({
      executionId: this.request.executionId,
      exitCode: end.type === 'end' ? end.exitCode : null,
      error: end.type === 'error' ? end.code : null,
      durationMs: Math.round(performance.now() - this.#startedMs),
    });
    this.events.finish(end);
  }

  async #follow(): Promise<void> {
    const attachment = this.#process.attach();
    for (let next = attachment.next(); next !== null; next = attachment.next()) {
      if (!next) await attachment.within(longestTimerMs);
      const event = next?.event;
      if (event?.case === 'data' && event.value.output?.case && event.value.output.case !== 'pty') {
        const { case: channel, value } = event.value.output;
        this.events.addOutput(channel, value as Buffer);
        await this.events.drained();
      } else if (event?.case === 'end') {
        // An execution that is being killed ends with the event of the kill, not with the exit code that the kill
        // causes.
        await this.#killing;
        this.#finish({ type: 'end', exitCode: event.value.exitCode ?? -1 });
      }
    }
    attachment.close();
  }
}

/** Writes a command's input to its pipe, as fast as the command reads, and closes the pipe. */
function feed(fd: number, text: string): void {
  if (text === '') {
    closeSync(fd);
    return;
  }
  const pipe = new net.Socket({ fd, readable: false, writable: true });
  // A command may end, or close its input, without reading all of it.
  pipe.on('error', () => pipe.destroy());
  pipe.end(text);
}
