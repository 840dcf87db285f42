import { BoundedCounts, type CountExchange } from '../domain/bounded-counts.ts';
import { e2bPrefix } from '../domain/e2b-address.ts';
import { forwardedClientField, signForwardedClient } from '../domain/forwarded-client.ts';
import { GatewayError } from './error-reply.ts';
import type { Exchange } from './exchange.ts';
import { withoutNames } from './header-fields.ts';
import { ApiConnections } from './upstream/api-connections.ts';
import { type HttpContext, HttpForwarding } from './upstream/http-forwarding.ts';
import { SandboxUnreachable } from './upstream/opening.ts';
import { MalformedResponse, type ResponseHead } from './upstream/response-parser.ts';

export interface ApiProxyOptions {
  /** The base URL at which this process reaches the API. */
  url: string;
  /** The keys that sign the address of a client for the API. The first one signs. */
  clientAddressKeys: () => Buffer[];
  /** Requests in progress of one client, because each takes a connection of the API. */
  maxRequestsPerClient: number;
}

/** The API's host has no cookies: pages of sandboxes, whose names are beside its own, could set and send them. */
const cookie = new Set(['cookie']);
const setCookie = new Set(['set-cookie']);

/**
 * Forwards requests for the host name `api.<base domain>` to the API, as requests for E2B's paths at the API's own
 * address. So a proxy in front of the API need not know that name.
 */
export class ApiProxy {
  readonly #options: ApiProxyOptions;
  readonly #host: string;
  readonly #pathPrefix: string;
  readonly #connections: ApiConnections;
  readonly #perClient: BoundedCounts;

  constructor(options: ApiProxyOptions, counts: CountExchange) {
    this.#options = options;
    const url = new URL(options.url);
    this.#host = url.host;
    this.#pathPrefix = `${url.pathname.replace(/\/+$/, '')}${e2bPrefix}`;
    this.#connections = new ApiConnections(url);
    this.#perClient = new BoundedCounts(options.maxRequestsPerClient, 'api-requests-of-client', counts);
  }

  /**
   * A forwarding to the API that has not started.
   * @param client the client's key, its address, and what to do when its request has ended
   * @throws {GatewayError}
   */
  forwardingOf(
    exchange: Exchange,
    client: { key: string; address: string; releases: (() => void)[] },
    shared: Pick<HttpContext, 'waiting' | 'stalledClientTimeoutMs' | 'onBadReply'> & { trustProxy: boolean },
  ): { start(): Promise<void>; clientClosed(completed: boolean): void } {
    if (!exchange.target.startsWith('/')) throw new ApiRefusal(400, 'invalid_target', 'The target is not a path');
    if (!this.#perClient.tryAdd(client.key)) {
      throw new ApiRefusal(429, 'too_many_requests', 'Too many requests from this address', { retryAfterSeconds: 1 });
    }
    client.releases.push(() => this.#perClient.remove(client.key));
    const { trustProxy, ...context } = shared;
    const signed = signForwardedClient(client.address, this.#options.clientAddressKeys()[0]!);
    const forwarding = new HttpForwarding({
      ...context,
      exchange,
      clientKey: client.key,
      connections: this.#connections,
      refusal: refusalOf,
      request: {
        target: `${this.#pathPrefix}${exchange.target}`,
        host: this.#host,
        trustProxy,
        fields: withoutNames(exchange.headers.forward, cookie),
        credentials: [forwardedClientField, signed],
      },
      page: { replyHead: withoutCookies, isPage: false },
    });
    const start = async () => {
      try {
        await forwarding.start();
      } catch (error) {
        throw error instanceof SandboxUnreachable ? refusalOf(error) : error;
      }
    };
    return { start, clientClosed: (completed) => forwarding.clientClosed(completed) };
  }

  close(): void {
    this.#connections.close();
  }
}

/** A refusal in the form of E2B's API, whose clients use this host. */
class ApiRefusal extends GatewayError {
  override body(): object {
    return { code: this.status, message: this.message };
  }
}

function refusalOf(error: Error): GatewayError {
  if (error instanceof SandboxUnreachable) {
    return new ApiRefusal(503, 'api_unreachable', 'The API does not answer now', { retryAfterSeconds: 1 });
  }
  const text = error instanceof MalformedResponse ? 'The API sent no valid reply' : 'The API sent no reply';
  return new ApiRefusal(502, 'api_no_reply', text);
}

function withoutCookies(head: ResponseHead): ResponseHead {
  return { ...head, headers: withoutNames(head.headers, setCookie) };
}
