import type { ApiClient } from './api-client.ts';
import type { AddSandboxPortBody, Port, SandboxPorts } from './generated/api.ts';
import { exchange } from './http-exchange.ts';
import { publicUrl, resolveServer } from './sandbox-address.ts';
import { expiryIn, portSignature } from './signed-url.ts';

export interface PortResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: AsyncIterable<Uint8Array>;
}

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
  async request(
    port: number,
    path = '/',
    request: { method?: string; headers?: Record<string, string>; body?: string | Uint8Array } = {},
  ): Promise<PortResponse> {
    const server = resolveServer(`${port}-${this.#sandbox.domain}`, this.#api.connection);
    const { method = 'GET', headers = {}, body } = request;
    const sent = { method, headers: { 'X-Access-Token': this.#sandbox.token, ...headers }, body, isAlone: true };
    const response = await exchange(server, path, sent);
    return { status: response.statusCode!, headers: response.headers, body: response };
  }

  list(): Promise<SandboxPorts> {
    return this.#api.call('listSandboxPorts', { path: { sandbox_id: this.#sandbox.id } });
  }

  /** Declares a port, as public or protected. */
  async add(port: AddSandboxPortBody): Promise<Port> {
    return (await this.#api.call('addSandboxPort', { path: { sandbox_id: this.#sandbox.id }, body: port })).port;
  }

  async remove(port: number): Promise<void> {
    await this.#api.call('removeSandboxPort', { path: { sandbox_id: this.#sandbox.id, port } });
  }
}
