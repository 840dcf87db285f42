import type { IncomingMessage } from 'node:http';
import { frame, readFrames } from './connect-stream.ts';
import type { AgentLimits, Connection } from './connection-options.ts';
import { SandboxError } from './errors.ts';
import type { Calls, Streams } from './generated/agent.ts';
import { exchange, type HttpServer, parseReply, readText } from './http-exchange.ts';
import { type RequestOptions, withTimeout } from './request-options.ts';
import { withRetries } from './retries.ts';

const defaultMaxReplyBytes = 64 * 1024 * 1024;
/** Calls that may be repeated if it is unknown whether the first one arrived. */
const repeatable = new Set<keyof Calls>([
  ...(['Filesystem/Stat', 'Filesystem/ListDir', 'Filesystem/Remove', 'Process/List', 'Process/Update'] as const),
  'Filesystem/RemoveWatcher',
]);

/** The agent in one sandbox: Connect calls in JSON, uploads and downloads. */
export class AgentClient {
  readonly server: HttpServer;
  readonly limits: AgentLimits;
  readonly #token: string;
  readonly #requestTimeoutMs: number;

  constructor(
    server: HttpServer,
    token: string,
    { agentLimits, requestTimeoutMs }: Pick<Connection, 'agentLimits' | 'requestTimeoutMs'>,
  ) {
    this.server = server;
    this.limits = agentLimits;
    this.#token = token;
    this.#requestTimeoutMs = requestTimeoutMs;
  }

  /** @throws {SandboxError} with the agent's or the gateway's code */
  async call<Name extends keyof Calls>(
    name: Name,
    message: Calls[Name]['input'],
    { requestTimeoutMs = this.#requestTimeoutMs, signal: given }: RequestOptions = {},
  ): Promise<Calls[Name]['output']> {
    const isRepeatable = repeatable.has(name);
    const work = async (signal: AbortSignal) => {
      const response = await this.request('POST', `/sandboxagent.${name}`, {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(message),
        signal,
        isAlone: !isRepeatable,
      });
      try {
        return parseReply(await readText(response, this.limits.maxReplyBytes ?? defaultMaxReplyBytes));
      } catch (error) {
        throw this.toReason(error, signal);
      }
    };
    return withTimeout({ requestTimeoutMs, signal: given }, name, (signal) =>
      isRepeatable ? withRetries(() => work(signal), signal) : work(signal),
    );
  }

  /** The messages of a server stream. It ends with an `Error` when the caller aborts. */
  async *stream<Name extends keyof Streams>(
    name: Name,
    message: Streams[Name]['input'],
    signal?: AbortSignal,
    headers: Record<string, string> = {},
  ): AsyncGenerator<Streams[Name]['output'], void> {
    const response = await this.request('POST', `/sandboxagent.${name}`, {
      headers: {
        ...{ 'Content-Type': 'application/connect+json', 'Keepalive-Ping-Interval': '20', 'Accept-Result-Data': '1' },
        ...headers,
      },
      body: frame(message),
      signal,
      isAlone: true,
    });
    try {
      yield* readFrames<Streams[Name]['output']>(response, this.limits.maxReplyBytes ?? defaultMaxReplyBytes);
    } catch (error) {
      throw this.toReason(error, signal);
    } finally {
      response.destroy();
    }
  }

  /** The reason of the abort, if there was one: an aborted request fails as a broken connection. */
  toReason(error: unknown, signal?: AbortSignal): unknown {
    const ended = this.#joinSignals(signal);
    return ended?.aborted ? ended.reason : error;
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
      signal: this.#joinSignals(request.signal),
      headers: { 'X-Access-Token': this.#token, ...request.headers },
    });
  }

  #joinSignals(signal: AbortSignal | undefined): AbortSignal | undefined {
    return signal && this.limits.signal
      ? AbortSignal.any([signal, this.limits.signal])
      : (signal ?? this.limits.signal);
  }
}

/** Whether the agent's error means that an object does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof SandboxError && error.code === 'not_found';
}
