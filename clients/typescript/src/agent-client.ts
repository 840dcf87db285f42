import type { IncomingMessage } from 'node:http';
import { frame, readFrames } from './connect-stream.ts';
import { SandboxError } from './errors.ts';
import type { Calls, Streams } from './generated/agent.ts';
import { exchange, type HttpServer, readText } from './http-exchange.ts';
import { withRetries } from './retries.ts';

const maxReplyBytes = 64 * 1024 * 1024;
/** Calls that the client may repeat when it does not know whether the first one arrived. */
const repeatable = new Set<keyof Calls>([
  ...(['Filesystem/Stat', 'Filesystem/ListDir', 'Filesystem/Remove', 'Process/List', 'Process/Update'] as const),
  'Filesystem/RemoveWatcher',
]);

/** The agent in one sandbox: Connect calls in JSON, uploads and downloads. */
export class AgentClient {
  readonly server: HttpServer;
  readonly #token: string;

  constructor(server: HttpServer, token: string) {
    this.server = server;
    this.#token = token;
  }

  /** @throws {SandboxError} with the agent's or the gateway's code */
  async call<Name extends keyof Calls>(
    name: Name,
    message: Calls[Name]['input'],
    signal?: AbortSignal,
  ): Promise<Calls[Name]['output']> {
    const isRepeatable = repeatable.has(name);
    const work = async () => {
      const response = await this.request('POST', `/sandboxagent.${name}`, {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(message),
        signal,
        isAlone: !isRepeatable,
      });
      return JSON.parse(await readText(response, maxReplyBytes));
    };
    return isRepeatable ? withRetries(work, signal) : work();
  }

  /** The messages of a server stream, which ends with an `Error` when the caller aborts. */
  async *stream<Name extends keyof Streams>(
    name: Name,
    message: Streams[Name]['input'],
    signal?: AbortSignal,
  ): AsyncGenerator<Streams[Name]['output'], void> {
    const response = await this.request('POST', `/sandboxagent.${name}`, {
      headers: { 'Content-Type': 'application/connect+json', 'Keepalive-Ping-Interval': '20' },
      body: frame(message),
      signal,
      isAlone: true,
    });
    try {
      yield* readFrames<Streams[Name]['output']>(response);
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      response.destroy();
    }
  }

  request(
    method: string,
    path: string,
    request: {
      headers?: Record<string, string>;
      body?: Uint8Array | string | AsyncIterable<Uint8Array>;
      signal?: AbortSignal | undefined;
      isAlone?: boolean;
    } = {},
  ): Promise<IncomingMessage> {
    return exchange(this.server, path, {
      method,
      ...request,
      headers: { 'X-Access-Token': this.#token, ...request.headers },
    });
  }
}

/** Whether the agent says that something is not there. */
export function isNotFound(error: unknown): boolean {
  return error instanceof SandboxError && error.code === 'not_found';
}
