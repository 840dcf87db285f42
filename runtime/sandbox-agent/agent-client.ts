import type net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { SandboxId } from '../../domain/ids.ts';
import {
  type AgentEndpoint,
  callAgent,
  canConnect,
  connectLoopback,
  UnusableReply,
} from '../../platform/agent-client/sandbox-exchange.ts';

/** The port of the agent in every sandbox. */
export const agentPort = 49983;

const maxReplyBytes = 64 * 1024;
/** The state of a command that has failed. The tail is 8 KiB in base64. */
const commandState = z.object({
  command: z.object({
    running: z.literal(false),
    exitCode: z.int().min(1).max(255),
    outputTail: z.string().max(11_000),
  }),
});
const firstPollMs = 4;
const connectTimeoutMs = 20;
const replyTimeoutSeconds = 5;

/** The boot document of an agent; see agent/BOOT.md. */
export interface AgentInit {
  sandboxId: SandboxId;
  accessToken: string | null;
  env: Record<string, string>;
  command: { entrypoint: string[]; cmd: string[] } | null;
  cwd?: string;
  user?: string;
}

/** What an agent gets that was started before it had a sandbox. */
export interface LateInit extends AgentInit {
  hostname: string;
  /** The sandbox's own token. */
  platformToken: string;
}

/** The agent gave no usable reply. Replies come from inside a sandbox, so they are not part of the message. */
export class AgentError extends Error {
  override name = 'AgentError';
}

/** Calls the platform's own paths of one sandbox's agent. Replies are untrusted: bounded in size and time. */
export class AgentClient {
  readonly #agent: AgentEndpoint;

  constructor(address: string, platformToken: string) {
    this.#agent = { address, port: agentPort, platformToken };
  }

  /**
   * Waits until the agent listens and knows its sandbox.
   * @throws {AgentError} when it serves another sandbox, or does not answer in time; the signal's reason when it aborts
   */
  whenReady(sandboxId: SandboxId, timeoutSeconds: number, signal: AbortSignal): Promise<void> {
    return this.#whenServing(sandboxId, timeoutSeconds, signal);
  }

  async #whenServing(sandboxId: SandboxId | null, timeoutSeconds: number, signal: AbortSignal): Promise<void> {
    const start = performance.now();
    const end = start + timeoutSeconds * 1000;
    for (;;) {
      const leftSeconds = Math.max(0.1, (end - performance.now()) / 1000);
      const timeoutSeconds = Math.min(replyTimeoutSeconds, leftSeconds);
      try {
        const elapsedMs = performance.now() - start;
        // A connect costs a tenth of a request. Its timeout is short because the first packet to a new interface may be
        // lost, and the kernel would resend it only after a second.
        if (!(await canConnect(this.#agent, Math.max(connectTimeoutMs, elapsedMs / 4), signal)))
          throw new AgentError('the agent does not listen');
        const state = await this.#ask('GET', '/platform/state', undefined, timeoutSeconds, signal);
        if ((state as { sandboxId?: unknown }).sandboxId === sandboxId) return;
        throw new AgentError('the agent serves another sandbox');
      } catch (error) {
        if (!(error instanceof AgentError) || performance.now() > end) throw error;
      }
      // When many sandboxes start at once, each takes longer, and frequent requests would slow them down further.
      await sleep(Math.max(firstPollMs, (performance.now() - start) / 10), undefined, { signal });
    }
  }

  /** Waits until an agent without a sandbox listens. @throws {AgentError} as `whenReady` */
  whenWaiting(timeoutSeconds: number, signal: AbortSignal): Promise<void> {
    return this.#whenServing(null, timeoutSeconds, signal);
  }

  /** Whether a connection to the agent can be opened within the time. @throws the signal's reason when it aborts */
  listens(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    return canConnect(this.#agent, timeoutMs, signal);
  }

  /**
   * Gives an agent without a sandbox its sandbox. From then on it answers to the sandbox's token alone.
   * @throws {AgentError} also when it has another sandbox
   */
  async initialise(init: LateInit, signal: AbortSignal): Promise<void> {
    await this.#ask('POST', '/platform/init', init, replyTimeoutSeconds, signal, 204);
  }

  /** A connection to a server that listens on a loopback address of the sandbox. Null: there is none. */
  connectLoopback(port: number, deadlineMs: number, signal: AbortSignal): Promise<net.Socket | null> {
    return connectLoopback(this.#agent, port, deadlineMs, signal);
  }

  /**
   * The end of the command of the boot document, if it has failed.
   * @returns null while it runs, or when it ended with 0, or when there is none
   */
  async failedCommand(signal: AbortSignal): Promise<{ exitCode: number; output: string } | null> {
    const state = commandState.safeParse(
      await this.#ask('GET', '/platform/state', undefined, replyTimeoutSeconds, signal),
    );
    if (!state.success) return null;
    const { exitCode, outputTail } = state.data.command;
    return { exitCode, output: Buffer.from(outputTail, 'base64').toString('utf8').replaceAll('\0', '\ufffd') };
  }

  /** Runs a command in the sandbox. @returns its exit code */
  async probe(command: string[], timeoutSeconds: number, signal: AbortSignal): Promise<number> {
    const reply = await this.#ask('POST', '/platform/probe', { command, timeoutSeconds }, timeoutSeconds + 1, signal);
    return Number((reply as { exitCode?: unknown }).exitCode);
  }

  /** @returns a JSON object or array, of any shape; an empty object where the reply has no body */
  async #ask(
    method: string,
    path: string,
    body: object | undefined,
    timeoutSeconds: number,
    signal: AbortSignal,
    expectedStatus = 200,
  ): Promise<object> {
    try {
      const { status, json } = await callAgent(this.#agent, {
        method,
        path,
        ...(body && { body }),
        deadlineMs: Math.ceil(timeoutSeconds * 1000),
        maxReplyBytes,
        signal,
      });
      if (status !== expectedStatus) throw new AgentError(`${method} ${path} was answered with ${status}`);
      if (status === 204) return {};
      if (typeof json !== 'object' || json === null)
        throw new AgentError(`${method} ${path} was not answered with an object`);
      return json;
    } catch (error) {
      if (error instanceof UnusableReply)
        throw new AgentError(`${method} ${path} had no usable answer`, { cause: error });
      throw error;
    }
  }
}
