import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import { type AgentEndpoint, callAgent } from '../../sandbox-agent-client/platform-call.ts';
import { canConnect, UnusableReply } from '../../sandbox-agent-client/sandbox-exchange.ts';
import { agentPort } from './container-config.ts';

const maxReplyBytes = 64 * 1024;
const firstPollMs = 4;
const connectPatienceMs = 20;
const replyTimeoutSeconds = 5;

/** What an agent gets to know about the sandbox it serves; see agent/BOOT.md. */
export interface AgentInit {
  sandboxId: SandboxId;
  accessToken: string | null;
  env: Record<string, string>;
  command: { entrypoint: string[]; cmd: string[] } | null;
  cwd?: string;
  user?: string;
}

/** The agent gave no usable answer. What it says comes from inside a sandbox and is not repeated. */
export class AgentError extends Error {
  override name = 'AgentError';
}

/** The platform's own paths of one sandbox's agent. Replies are untrusted: bounded in size and time. */
export class AgentClient {
  readonly #agent: AgentEndpoint;

  constructor(address: string, platformToken: string) {
    this.#agent = { address, port: agentPort, platformToken };
  }

  /**
   * Waits until the agent listens and knows its sandbox.
   * @throws {AgentError} when it serves another, or not in time; the signal's reason when that is raised.
   */
  async whenReady(sandboxId: SandboxId, timeoutSeconds: number, signal: AbortSignal): Promise<void> {
    const start = performance.now();
    const end = start + timeoutSeconds * 1000;
    for (;;) {
      const leftSeconds = Math.max(0.1, (end - performance.now()) / 1000);
      const patienceSeconds = Math.min(replyTimeoutSeconds, leftSeconds);
      try {
        const elapsedMs = performance.now() - start;
        // A connect costs a tenth of a request. It is not waited for long: the first packet to an interface that has
        // just come up may be lost, and the kernel would send the next one only after a second.
        if (!(await canConnect(this.#agent, Math.max(connectPatienceMs, elapsedMs / 4), signal)))
          throw new AgentError('the agent does not listen');
        const state = await this.#ask('GET', '/platform/state', undefined, patienceSeconds, signal);
        if ((state as { sandboxId?: unknown }).sandboxId === sandboxId) return;
        throw new AgentError('the agent serves another sandbox');
      } catch (error) {
        if (!(error instanceof AgentError) || performance.now() > end) throw error;
      }
      // Where many start at once each takes longer, and asking them all the time would take longer still.
      await sleep(Math.max(firstPollMs, (performance.now() - start) / 10), undefined, { signal });
    }
  }

  /** Runs a command inside. @returns its exit code. */
  async probe(command: string[], timeoutSeconds: number, signal: AbortSignal): Promise<number> {
    const reply = await this.#ask('POST', '/platform/probe', { command, timeoutSeconds }, timeoutSeconds + 1, signal);
    return Number((reply as { exitCode?: unknown }).exitCode);
  }

  /** @returns a JSON object or array, of any shape */
  async #ask(
    method: string,
    path: string,
    body: object | undefined,
    timeoutSeconds: number,
    signal: AbortSignal,
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
      if (status !== 200) throw new AgentError(`${method} ${path} was answered with ${status}`);
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
