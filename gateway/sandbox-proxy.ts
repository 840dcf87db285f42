import ipaddr from 'ipaddr.js';
import type { Logger } from 'pino';
import { BoundedCounts, type CountExchange } from '../domain/bounded-counts.ts';
import { clientKey } from '../domain/client-address.ts';
import type { SandboxId } from '../domain/ids.ts';
import type { ApiProxy } from './api-proxy.ts';
import type { BoundedLog } from './bounded-log.ts';
import type { GatewayLimits } from './connection-limits.ts';
import { GatewayError } from './error-reply.ts';
import type { Exchange } from './exchange.ts';
import { withoutNames } from './header-fields.ts';
import { methodNotAllowed } from './http1-front.ts';
import { OpenPrivateExchanges } from './open-private-exchanges.ts';
import { errorPage, isForPerson, sandboxPage } from './pages/notice-page.ts';
import { isolateFromPages } from './pages/own-origin.ts';
import type { PageAssets } from './pages/page-assets.ts';
import { type PagePath, readPagePath } from './pages/page-paths.ts';
import { type PageCall, WebPages } from './pages/web-pages.ts';
import { isPlatformPath } from './platform-path.ts';
import { isPortAuthorized, portAccess } from './port-access.ts';
import type { RequestHeaders } from './request-headers.ts';
import type { RouteTable, SandboxRoute } from './routes.ts';
import { withoutSignature } from './signed-query.ts';
import { isServerNameAllowed, readTargetFields, readTargetHost, type SandboxTarget } from './target-host.ts';
import { GrpcForwarding, isGrpc } from './upstream/grpc-forwarding.ts';
import { type Connections, type ForwardingContext, HttpForwarding, refusalFor } from './upstream/http-forwarding.ts';
import { SandboxUnreachable } from './upstream/opening.ts';
import type { UpstreamPool } from './upstream/pool.ts';
import type { UpstreamRequest } from './upstream/request-head.ts';
import type { ResponseHead } from './upstream/response-parser.ts';
import { WebSocketForwarding } from './upstream/websocket-forwarding.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** CONNECT is for proxies. TRACE would show header fields to scripts that may not read them. */
const refusedMethods = new Set(['CONNECT', 'TRACE', 'TRACK']);

/**
 * A connection that took longer than this to fail is not retried at the sandbox's new address, because the caller has
 * already waited long.
 */
const retryWithinMs = 2000;

export interface SandboxProxyOptions {
  baseDomain: string;
  /** Null: the gateway does not forward to the API. */
  api: ApiProxy | null;
  /** The base URL of the API, for links to its documentation. */
  apiUrl: string;
  trustProxy: boolean;
  limits: GatewayLimits;
  counts: CountExchange;
  routes: RouteTable;
  pool: UpstreamPool;
  pages: PageAssets;
  /** Called for each used sandbox. */
  onAccess: (sandboxId: SandboxId) => void;
  logger: Logger;
  /** A log for lines that tenants can cause. */
  log: BoundedLog;
}

/** The fields that name a sandbox where the host name does not. The agent tells E2B's clients by the id. */
const routingPort = new Set(['e2b-sandbox-port']);
const routingFields = new Set(['e2b-sandbox-id', ...routingPort]);
/** Sandboxes share a host name there, so a cookie of one would be sent to the others. */
const setCookie = new Set(['set-cookie']);

interface Destination {
  host: string;
  /** Null: the agent. */
  port: number | null;
  /** The host name is that of all sandboxes. */
  isShared: boolean;
  call: PageCall | null;
}

interface Forwarding {
  start(): Promise<void>;
  clientClosed(completed: boolean): void;
}

/** Decides for every request which sandbox and port it reaches, whether that is allowed, and the reply if it is not. */
export class SandboxProxy {
  readonly #options: SandboxProxyOptions;
  readonly #perClient: BoundedCounts;
  readonly #perSandbox: BoundedCounts;
  readonly #waiting: WaitingBytes;
  readonly #private: OpenPrivateExchanges;
  readonly #pages: WebPages;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SandboxProxyOptions) {
    this.#options = options;
    this.#perClient = new BoundedCounts(options.limits.maxRequestsPerClient, 'requests-of-client', options.counts);
    const { maxWaitingBytes: maxBytes, maxWaitingBytesPerClient: maxBytesPerClient } = options.limits;
    this.#waiting = new WaitingBytes({ maxBytes, maxBytesPerClient, log: options.log });
    this.#private = new OpenPrivateExchanges(options.routes);
    this.#pages = new WebPages(options.pages);
    this.#perSandbox = new BoundedCounts(options.limits.maxRequestsPerSandbox, 'requests-of-sandbox', options.counts);
  }

  /** Takes a request and ensures that it gets a reply. */
  handle(exchange: Exchange): void {
    const end = (error: unknown) => {
      if (exchange.isClosed) return;
      if (exchange.isHeadSent) return exchange.abort();
      const refusal = error instanceof GatewayError ? error : this.#unexpected(error);
      // A request that ends its connection may not have been read to its end.
      if (!refusal.closesConnection && isForPerson(exchange)) errorPage(exchange, refusal);
      else exchange.refuse(refusal);
    };
    this.#serve(exchange).catch(exchange.faults.wrap(end));
  }

  /** The number of sandboxes and clients with requests in progress. */
  get inProgress(): { sandboxes: number; clients: number } {
    return { sandboxes: this.#perSandbox.size, clients: this.#perClient.size };
  }

  async #serve(exchange: Exchange): Promise<void> {
    const { baseDomain, apiUrl, onAccess, logger } = this.#options;
    const host = readAuthority(exchange);
    checkTarget(exchange);
    if (!isServerNameAllowed(exchange.client.serverName, baseDomain)) {
      throw new GatewayError(421, 'misdirected_request', 'This TLS connection was opened for another name');
    }
    const named = readTargetHost(host, baseDomain);
    if (named.kind === 'malformed') throw invalidHost();
    const shared = named.kind === 'base' || named.kind === 'foreign' ? readSharedTarget(exchange.headers) : null;
    const target = shared ?? named;
    if (target.kind === 'api' && this.#options.api) return this.#serveApi(exchange, this.#options.api);
    if (target.kind === 'base') {
      this.#serveBase(exchange);
      return;
    }
    if (target.kind !== 'sandbox') throw new GatewayError(404, 'unknown_host', 'No sandbox has this host name');
    const { sandboxId, port } = target;
    const releases: (() => void)[] = [];
    let forwarding: Forwarding | null = null;
    const startedAt = performance.now();
    exchange.onClosed = (completed) => {
      for (const release of releases) release();
      forwarding?.clientClosed(completed);
      if (logger.isLevelEnabled('debug')) this.#log(exchange, sandboxId, port, completed, startedAt);
    };
    const clientKey = this.#countClient(exchange, releases);
    const page = port === null ? readPagePath(exchange.target) : null;
    const isRoot = port === null && /^\/($|\?)/.test(exchange.target) && isForPerson(exchange);
    let call: PageCall | null = null;
    let failure: GatewayError | null = null;
    for (let triedAddress: string | null = null; ; ) {
      const triedAtMs = performance.now();
      const route = await this.#findRoute(sandboxId);
      if (exchange.isClosed) return;
      if (isRoot) return sandboxPage(exchange, route, { host, apiUrl });
      if (page && this.#pages.serveStatic({ exchange, route, path: page, host, isRunning: isRunning(route) })) return;
      requireRunning(route);
      if (failure && triedAddress === route.address) throw failure;
      if (page && !call) {
        call = this.#callOfPage(exchange, route, page, host);
        if (!call) return;
      }
      const { isPublic, ...admitted } = this.#admit(exchange, route, { host, port, isShared: shared !== null, call });
      const context = { ...admitted, clientKey, waiting: this.#waiting };
      if (triedAddress === null) {
        this.#countSandbox(sandboxId, releases);
        if (!isPublic) releases.push(this.#private.add(sandboxId, exchange, { endsWithPause: call !== null }));
        if (call) releases.push(cutAt(exchange, call.endsAtMs));
        onAccess(sandboxId);
        releases.push(() => onAccess(sandboxId));
      }
      forwarding = createForwarding(context);
      try {
        await forwarding.start();
        return;
      } catch (error) {
        if (!(error instanceof SandboxUnreachable)) throw error;
        // Nothing was sent. The sandbox may just have moved, so it is looked up once more, unless this was the second
        // attempt.
        if (exchange.isClosed) return;
        const isSlow = performance.now() - triedAtMs > retryWithinMs;
        failure = refusalFor(error, context.port);
        if (isSlow || triedAddress !== null || !this.#options.routes.dropUnlessNew(sandboxId)) throw failure;
        triedAddress = route.address;
      }
    }
  }

  async #serveApi(exchange: Exchange, api: ApiProxy): Promise<void> {
    const { trustProxy, limits, log } = this.#options;
    const releases: (() => void)[] = [];
    let forwarding: Forwarding | null = null;
    exchange.onClosed = (completed) => {
      for (const release of releases) release();
      forwarding?.clientClosed(completed);
    };
    const key = this.#countClient(exchange, releases);
    const address = clientAddress(exchange, trustProxy);
    const { requestId } = exchange;
    forwarding = api.forwardingOf(
      exchange,
      { key, address, releases },
      {
        trustProxy,
        waiting: this.#waiting,
        stalledClientTimeoutMs: limits.stalledClientTimeoutMs,
        onBadReply: (reason) => log.write('warn', { requestId, reason }, 'the API sent a bad reply'),
      },
    );
    await forwarding.start();
  }

  #serveBase(exchange: Exchange): void {
    const isHealth = /^\/healthz(\?|$)/.test(exchange.target) && ['GET', 'HEAD'].includes(exchange.method);
    if (!isHealth) throw notFound();
    const body = Buffer.from('{"status":"ok"}');
    const headers = ['Content-Type', 'application/json', 'Content-Length', String(body.length)];
    headers.push('Cache-Control', 'no-store', 'X-Request-Id', exchange.requestId);
    exchange.sendHead({ status: 200, reason: 'OK', headers, bodyLength: body.length, upgrade: null });
    exchange.finish(exchange.method === 'HEAD' ? body.subarray(0, 0) : body, [], () => undefined);
  }

  async #findRoute(sandboxId: SandboxId): Promise<SandboxRoute> {
    let route: SandboxRoute | null;
    try {
      route = await this.#options.routes.find(sandboxId);
    } catch (error) {
      this.#warnOfRoutes(error);
      throw new GatewayError(503, 'temporarily_unavailable', 'Sandboxes cannot be looked up now', {
        retryAfterSeconds: 1,
      });
    }
    if (!route) throw new GatewayError(404, 'sandbox_not_found', 'No such sandbox');
    return route;
  }

  /** The call of a page to the agent. Null when the request was answered. */
  #callOfPage(exchange: Exchange, route: SandboxRoute, path: PagePath, host: string): PageCall | null {
    if (route.isLocked) throw ownerDisabled();
    return this.#pages.serve({ exchange, route, path, host, isRunning: true });
  }

  /** The port of the request and the access to it. @throws {GatewayError} when access is refused */
  #admit(
    exchange: Exchange,
    route: SandboxRoute,
    { host, port: requestedPort, isShared, call }: Destination,
  ): Omit<ForwardingContext, 'clientKey' | 'waiting'> & { isPublic: boolean } {
    const { method, isWebSocket } = exchange;
    let target = call?.target ?? exchange.target;
    const { trustProxy, pool, limits, log } = this.#options;
    const access = portAccess(route, requestedPort);
    if (access.kind === 'not_http') {
      throw new GatewayError(404, 'port_not_http', 'This port of the sandbox is UDP: the gateway does not carry it');
    }
    const isAgent = access.kind === 'agent';
    const isPublic = access.kind === 'public';
    if (route.isLocked && !isPublic) throw ownerDisabled();
    const { forward, accessToken, trafficToken } = exchange.headers;
    let credentials: string[] = [];
    if (isAgent) {
      const { pathPrefix } = access;
      if (pathPrefix !== '') target = `${pathPrefix}${target.startsWith('/') ? target : '/'}`;
      // The reply must not reveal that the path exists.
      if (isPlatformPath(target)) throw notFound();
      const token = accessToken ?? (pathPrefix === '' ? null : trafficToken);
      if (token !== null) credentials = ['X-Access-Token', token];
    }
    if (access.kind === 'token') {
      const { requestedPort: port } = access;
      const token = accessToken ?? trafficToken;
      if (!isPortAuthorized(route, { port, accessToken: token, target, method, isWebSocket })) {
        throw new GatewayError(401, 'unauthenticated', 'This port asks for the access token of the sandbox');
      }
      target = withoutSignature(target);
    }
    const fields = isShared ? withoutNames(forward, isAgent ? routingPort : routingFields) : forward;
    const request: UpstreamRequest = { target, host, trustProxy, fields, credentials };
    const replyFields = isAgent && !call ? isolateFromPages(exchange) : [];
    if (isShared) replyFields.push('Vary', 'E2b-Sandbox-Id, E2b-Sandbox-Port');
    const { stalledClientTimeoutMs } = limits;
    const { sandboxId } = route;
    const { requestId } = exchange;
    const { port } = access;
    const onBadReply = (reason: string) =>
      log.write('info', { sandboxId, port, requestId, reason }, 'a sandbox sent a bad reply');
    const replyHead =
      call?.replyHead ??
      ((head: ResponseHead) => {
        const headers = isShared ? withoutNames(head.headers, setCookie) : head.headers;
        return { ...head, headers: [...headers, ...replyFields] };
      });
    const page = call || replyFields.length > 0 ? { replyHead, isPage: call !== null } : null;
    const connections: Connections = {
      acquire: (need) => pool.acquire(route, port, need),
      release: (connection) => pool.release(connection),
    };
    const refusal = (error: Error) => refusalFor(error, port);
    const common = { exchange, request, connections, refusal, stalledClientTimeoutMs, onBadReply, page };
    return { ...common, route, port, pool, isPublic };
  }

  /** Returns the key under which the client is counted. */
  #countClient(exchange: Exchange, releases: (() => void)[]): string {
    const forwarded = this.#options.trustProxy ? lastForwardedFor(exchange) : null;
    const key = forwarded !== null ? clientKey(forwarded) : exchange.client.key;
    if (exchange.client.isOneTooMany) throw tooMany('connections');
    if (!this.#perClient.tryAdd(key)) throw tooMany('requests');
    releases.push(() => this.#perClient.remove(key));
    return key;
  }

  #countSandbox(sandboxId: SandboxId, releases: (() => void)[]): void {
    if (!this.#perSandbox.tryAdd(sandboxId)) {
      throw new GatewayError(503, 'sandbox_busy', 'The sandbox has as many requests under way as it may', {
        retryAfterSeconds: 1,
      });
    }
    releases.push(() => this.#perSandbox.remove(sandboxId));
  }

  /** Every request fails in this case, so one line per second is enough. */
  #warnOfRoutes(error: unknown): void {
    const now = performance.now();
    if (now - this.#warnedAtMs < 1000) return;
    this.#warnedAtMs = now;
    this.#options.logger.warn({ err: error }, 'routes could not be looked up');
  }

  #unexpected(error: unknown): GatewayError {
    this.#options.log.write('error', { err: error }, 'request failed');
    return new GatewayError(500, 'internal_error', 'Something went wrong', { closesConnection: true });
  }

  #log(exchange: Exchange, sandboxId: SandboxId, port: number | null, completed: boolean, startedAt: number): void {
    this.#options.logger.debug(
      {
        requestId: exchange.requestId,
        sandboxId,
        port,
        method: exchange.method,
        // Queries may contain signatures and tokens.
        path: exchange.target.split('?', 1)[0],
        status: exchange.responseStatus,
        completed,
        durationMs: Math.round(performance.now() - startedAt),
      },
      'request',
    );
  }
}

/** The sandbox that the fields of the request name. Null: they name none. @throws {GatewayError} */
function readSharedTarget({ sandboxIds, sandboxPorts }: RequestHeaders): SandboxTarget | null {
  const target = readTargetFields(sandboxIds, sandboxPorts);
  if (target?.kind !== 'malformed') return target;
  throw new GatewayError(
    400,
    'invalid_host',
    'E2b-Sandbox-Id and E2b-Sandbox-Port must name exactly one valid sandbox and port',
  );
}

/** The address that the proxy in front has seen. */
function lastForwardedFor({ headers }: Exchange): string | null {
  return headers.forwardedFor?.split(',').at(-1)?.trim() || null;
}

function clientAddress(exchange: Exchange, trustProxy: boolean): string {
  const forwarded = trustProxy ? lastForwardedFor(exchange) : null;
  const address = forwarded !== null && ipaddr.isValid(forwarded) ? forwarded : exchange.client.address;
  return ipaddr.process(address).toString();
}

function isRunning(route: SandboxRoute): boolean {
  return route.status === 'running' && route.address !== null;
}

function requireRunning(route: SandboxRoute): void {
  if (isRunning(route)) return;
  throw new GatewayError(502, 'sandbox_not_running', whyNotRunning(route));
}

/** People who open the address of a sandbox in a browser see only this text. */
function whyNotRunning({ status, sandboxId }: SandboxRoute): string {
  if (status !== 'paused') return 'The sandbox is not running';
  return `The sandbox is paused. To resume it, send POST /v1/sandboxes/${sandboxId}/resume to the API`;
}

/** Ends the exchange at the given time, when its session ends. Returns a function that cancels the timer. */
function cutAt(exchange: Exchange, atMs: number | null): () => void {
  if (atMs === null) return () => undefined;
  const timer = setTimeout(() => exchange.destroy(), Math.max(0, atMs - Date.now())).unref();
  return () => clearTimeout(timer);
}

function createForwarding(context: ForwardingContext): Forwarding {
  const { exchange } = context;
  // `HttpForwarding` is the only forwarding that changes the heads of replies.
  if (context.page?.isPage) return new HttpForwarding(context);
  if (exchange.isWebSocket) return new WebSocketForwarding(context);
  if (exchange.http2Stream && isGrpc(exchange.headers.contentType)) return new GrpcForwarding(context);
  return new HttpForwarding(context);
}

/** The one authority of the request. */
function readAuthority(exchange: Exchange): string {
  const { hosts } = exchange.headers;
  const authority = exchange.targetAuthority ?? hosts[0];
  if (!authority || hosts.length > 1) throw invalidHost();
  if (hosts.length === 1 && hosts[0]!.toLowerCase() !== authority.toLowerCase()) throw invalidHost();
  return authority;
}

function checkTarget(exchange: Exchange): void {
  const { target, method } = exchange;
  if (refusedMethods.has(method) || !/^[A-Za-z-]{1,32}$/.test(method)) throw methodNotAllowed();
  const isWellFormed = target.startsWith('/') ? !/[^\x21-\x7e]|#/.test(target) : target === '*' && method === 'OPTIONS';
  if (!isWellFormed) throw new GatewayError(400, 'invalid_target', 'The request target is not a path');
  const [contentLength, ...others] = exchange.headers.contentLengths;
  if (others.length > 0 || (contentLength !== undefined && !/^[0-9]{1,15}$/.test(contentLength))) {
    throw new GatewayError(400, 'malformed_request', 'Content-Length is not one number', { closesConnection: true });
  }
}

function invalidHost(): GatewayError {
  return new GatewayError(400, 'invalid_host', 'The request must name exactly one valid host');
}

function ownerDisabled(): GatewayError {
  return new GatewayError(403, 'owner_disabled', 'The owner of the sandbox is disabled: only its public ports answer');
}

function notFound(): GatewayError {
  return new GatewayError(404, 'not_found', 'Not found');
}

function tooMany(what: string): GatewayError {
  return new GatewayError(429, 'too_many_requests', `Too many ${what} from this address`, {
    retryAfterSeconds: 1,
    closesConnection: true,
  });
}
