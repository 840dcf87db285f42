import { setTimeout as delay } from 'node:timers/promises';
import type { AgentClient } from './agent-client.ts';
import { SandboxError } from './errors.ts';
import type { ProcessEventEndEvent, ProcessSelector, StartRequest } from './generated/agent.ts';

/** A piece of output. */
export interface Output {
  from: 'stdout' | 'stderr' | 'pty';
  bytes: Uint8Array;
}

const reconnects = 8;

/**
 * The events of a process of the sandbox. A process survives its connection: if the connection breaks off, the events
 * continue on another one.
 */
export class ProcessStream {
  readonly pid: number;
  readonly #agent: AgentClient;
  readonly #abort: AbortController;
  #events: AsyncGenerator<{ event?: ProcessStreamEvent }, void>;
  #ended: ProcessEventEndEvent | null = null;

  private constructor(
    agent: AgentClient,
    pid: number,
    events: AsyncGenerator<{ event?: ProcessStreamEvent }, void>,
    abort: AbortController,
  ) {
    this.#agent = agent;
    this.pid = pid;
    this.#events = events;
    this.#abort = abort;
  }

  /** @param options.user a user of the sandbox. Default: root */
  static start(
    agent: AgentClient,
    request: StartRequest,
    { user, leaveAfterMs }: { user?: string | undefined; leaveAfterMs?: number | undefined } = {},
  ): Promise<ProcessStream> {
    const abort = new AbortController();
    const headers = {
      // A background job that the command leaves does not delay its end.
      'Process-Ends-With': 'leader',
      ...(user !== undefined && { Authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` }),
      ...leaveHeader(leaveAfterMs),
    };
    return ProcessStream.#open(agent, agent.stream('Process/Start', request, abort.signal, headers), abort);
  }

  static connect(agent: AgentClient, process: ProcessSelector, leaveAfterMs?: number): Promise<ProcessStream> {
    const abort = new AbortController();
    const events = agent.stream('Process/Connect', { process }, abort.signal, leaveHeader(leaveAfterMs));
    return ProcessStream.#open(agent, events, abort);
  }

  static async #open(
    agent: AgentClient,
    events: AsyncGenerator<{ event?: ProcessStreamEvent }, void>,
    abort: AbortController,
  ): Promise<ProcessStream> {
    const first = await events.next();
    const pid = first.done ? undefined : first.value.event?.start?.pid;
    if (pid === undefined) throw new SandboxError('bad_reply', 'The process never started');
    return new ProcessStream(agent, pid, events, abort);
  }

  /** The end of the process. Null while it runs. */
  get ended(): ProcessEventEndEvent | null {
    return this.#ended;
  }

  /** Closes the connection. The process continues. */
  disconnect(): void {
    this.#abort.abort(hasLeft());
  }

  /** Its output until it ends. */
  async *output(): AsyncGenerator<Output, void> {
    for (let broken = 0; !this.#ended; broken++) {
      try {
        for await (const { event } of this.#events) {
          if (event?.end) {
            this.#ended = event.end;
            return;
          }
          if (!event?.data) continue;
          broken = 0;
          const [[from, base64] = []] = Object.entries(event.data) as [Output['from'], string][];
          if (from && base64) yield { from, bytes: Buffer.from(base64, 'base64') };
        }
        throw new SandboxError('connection_failed', 'The stream ended before the process did');
      } catch (error) {
        if (error instanceof SandboxError && error.code === 'deadline_exceeded') throw hasLeft();
        const isBroken = error instanceof SandboxError && error.code === 'connection_failed';
        if (!isBroken || broken === reconnects) throw error;
        await delay(100 * 2 ** broken);
        const process = { pid: this.pid };
        this.#events = this.#agent.stream('Process/Connect', { process }, this.#abort.signal);
      }
    }
  }
}

const hasLeft = () => new SandboxError('disconnected', 'The client left the process');

/** The agent itself ends the stream, so no output is lost on the way. The process continues. */
function leaveHeader(afterMs: number | undefined): Record<string, string> {
  return afterMs === undefined ? {} : { 'Connect-Timeout-Ms': String(Math.max(1, Math.round(afterMs))) };
}

interface ProcessStreamEvent {
  start?: { pid: number };
  data?: { stdout?: string; stderr?: string; pty?: string };
  end?: ProcessEventEndEvent;
}
