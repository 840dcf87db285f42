import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from './api-client.ts';
import { SandboxError } from './errors.ts';
import type { AddSandboxPortBody, Port, SandboxPorts } from './generated/api.ts';
import { exchange } from './http-exchange.ts';
import { type RequestOptions, withTimeout } from './request-options.ts';
import { publicUrl, resolveServer } from './sandbox-address.ts';
import { expiryIn, portSignature } from './signed-url.ts';

export interface PortResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: AsyncIterable<Uint8Array>;
}

export interface PortRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  signal?: AbortSignal;
}

export interface WaitForPortOptions {
  /** Default 60,000. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Replies of the gateway while nothing listens yet, or while it cannot say. */
const notYet = new Set([
  ...['sandbox_port_closed', 'sandbox_unreachable', 'sandbox_busy', 'too_many_requests', 'temporarily_unavailable'],
  'connection_failed',
]);
/** Replies of the gateway that waiting does not change. */
const lasting = new Set(['sandbox_not_running', 'sandbox_not_found', 'owner_disabled', 'port_not_http']);

/** Programs of the sandbox that listen on a port. */
export class Ports {
  readonly #api: ApiClient;
  readonly #sandbox: { id: string; domain: string; token: string };

  constructor(api: ApiClient, sandbox: { id: string; domain: string; token: string }) {
    this.#api = api;
    this.#sandbox = sandbox;
  }

  /**
   * The URL of a port, for browsers and other programs that can resolve the name. Undeclared and protected ports need
   * the token. `signed` makes a URL with a signature for one path, or for all paths with `/`.
   */
  url(
    port: number,
    {
      path = '/',
      signed,
      expiresInSeconds,
    }: { path?: string; signed?: 'read' | 'write'; expiresInSeconds?: number } = {},
  ): string {
    const domain = `${port}-${this.#sandbox.domain}`;
    const url = new URL(path, publicUrl(domain, this.#api.connection));
    if (signed) {
      const what = { domain, path: decodeURIComponent(url.pathname), operation: signed };
      const query = portSignature(what, this.#sandbox.token, expiryIn(expiresInSeconds));
      for (const [name, value] of query) url.searchParams.set(name, value);
    }
    return url.href;
  }

  /**
   * Sends a request to a port, with the token. The name of the sandbox need not resolve.
   * @throws {SandboxError} for a status from 400 on
   */
  async request(port: number, path = '/', request: PortRequest = {}): Promise<PortResponse> {
    const response = await this.#send(port, path, request);
    return { status: response.statusCode!, headers: response.headers, body: response };
  }

  #send(port: number, path: string, { method = 'GET', headers, body, signal }: PortRequest): Promise<IncomingMessage> {
    const server = resolveServer(`${port}-${this.#sandbox.domain}`, this.#api.connection);
    const sent = { 'X-Access-Token': this.#sandbox.token, ...headers };
    return exchange(server, path, { method, headers: sent, body, signal, isAlone: true });
  }

  /**
   * Waits until a program listens on a port, and returns the URL of the port.
   * @throws {SandboxError} `timed_out`
   */
  async waitFor(port: number, { timeoutMs = 60_000, signal }: WaitForPortOptions = {}): Promise<string> {
    const requestTimeoutMs = timeoutMs;
    await withTimeout({ requestTimeoutMs, signal }, `Nothing listens on port ${port}`, async (limit) => {
      for (let pauseMs = 20; !(await this.#listens(port, limit)); pauseMs = Math.min(2 * pauseMs, 500)) {
        await delay(pauseMs, undefined, { signal: limit }).catch(() => limit.throwIfAborted());
      }
    });
    return this.url(port);
  }

  /** Whether a program of the sandbox, and not the gateway, answers. */
  async #listens(port: number, signal: AbortSignal): Promise<boolean> {
    try {
      (await this.#send(port, '/', { signal })).destroy();
      return true;
    } catch (error) {
      if (signal.aborted || !(error instanceof SandboxError) || lasting.has(error.code)) throw error;
      // Every other error is a reply of the program.
      return !notYet.has(error.code);
    }
  }

  list(options: RequestOptions = {}): Promise<SandboxPorts> {
    return this.#api.call('listSandboxPorts', { path: { sandbox_id: this.#sandbox.id }, ...options });
  }

  /** Declares a port, as public or protected. */
  async add(port: AddSandboxPortBody, options: RequestOptions = {}): Promise<Port> {
    const request = { path: { sandbox_id: this.#sandbox.id }, body: port, ...options };
    return (await this.#api.call('addSandboxPort', request)).port;
  }

  async remove(port: number, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('removeSandboxPort', { path: { sandbox_id: this.#sandbox.id, port }, ...options });
  }
}
