import http from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { agentPort } from './container-config.ts';

const replyLimitBytes = 64 * 1024;
const firstPollMs = 4;
const connectPatienceMs = 20;
const replyTimeoutSeconds = 5;

/** What an agent is told of the sandbox it serves; see agent/BOOT.md. */
export interface AgentInit {
  sandboxId: string;
  accessToken: string | null;
  env: Record<string, string>;
  command: { entrypoint: string[]; cmd: string[] } | null;
  cwd?: string;
  user?: string;
}

/** An answer that is no success. What it says comes from inside a sandbox and is not repeated. */
export class AgentError extends Error {
  override name = 'AgentError';
}

/** The platform's own paths of one sandbox's agent. Replies are untrusted: bounded in size and time. */
export class AgentClient {
  readonly #address: string;
  readonly #token: string;

  constructor(address: string, platformToken: string) {
    this.#address = address;
    this.#token = platformToken;
  }

  /**
   * Waits until the agent listens and knows its sandbox.
   * @param sandboxId null for an agent that waits for its name
   * @throws {AgentError} when it serves another, or not in time; the signal's reason when that is raised.
   */
  async whenReady(sandboxId: string | null, timeoutSeconds: number, signal: AbortSignal): Promise<void> {
    const start = performance.now();
    const end = start + timeoutSeconds * 1000;
    for (;;) {
      const leftSeconds = Math.max(0.1, (end - performance.now()) / 1000);
      const patienceSeconds = Math.min(replyTimeoutSeconds, leftSeconds);
      try {
        const elapsedMs = performance.now() - start;
        if (!(await this.#listens(Math.max(connectPatienceMs, elapsedMs / 4), signal)))
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

  /**
   * Whether a connection is taken; a tenth of what a request costs. Not waited for long: the first packet to an
   * interface that has just come up may be lost, and the kernel would send the next one only after a second.
   */
  async #listens(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const socket = net.connect({ host: this.#address, port: agentPort, signal });
    try {
      return await new Promise<boolean>((resolve) => {
        socket.setTimeout(timeoutMs, () => resolve(false));
        socket.once('connect', () => resolve(true));
        socket.on('error', () => resolve(false));
      });
    } finally {
      socket.destroy();
      signal.throwIfAborted();
    }
  }

  /** Gives a pre-started agent its sandbox. */
  async init(init: AgentInit): Promise<void> {
    await this.#ask('POST', '/platform/init', init, replyTimeoutSeconds);
  }

  /** Runs a command inside. @returns its exit code. */
  async probe(command: string[], timeoutSeconds: number, signal?: AbortSignal): Promise<number> {
    const reply = await this.#ask('POST', '/platform/probe', { command, timeoutSeconds }, timeoutSeconds + 1, signal);
    return Number((reply as { exitCode?: unknown }).exitCode);
  }

  async #ask(
    method: string,
    path: string,
    body: unknown,
    timeoutSeconds: number,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const timeout = AbortSignal.timeout(Math.ceil(timeoutSeconds * 1000));
    const request = http.request({
      host: this.#address,
      port: agentPort,
      method,
      path,
      agent: false,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      headers: {
        'x-platform-token': this.#token,
        ...(text === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      },
    });
    try {
      const reply = await new Promise<http.IncomingMessage>((resolve, reject) => {
        request.once('response', resolve);
        request.once('error', reject);
        request.end(text);
      });
      const chunks: Buffer[] = [];
      let length = 0;
      for await (const chunk of reply as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > replyLimitBytes) throw new AgentError('the reply is too long');
        chunks.push(chunk);
      }
      if (reply.statusCode === 204) return {};
      if (reply.statusCode !== 200) throw new AgentError(`${method} ${path} was answered with ${reply.statusCode}`);
      return JSON.parse(Buffer.concat(chunks).toString('utf8')) ?? {};
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof AgentError) throw error;
      throw new AgentError(`${method} ${path} had no usable answer`, { cause: error });
    } finally {
      request.destroy();
    }
  }
}
