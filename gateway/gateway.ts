import type net from 'node:net';
import type { Logger } from 'pino';
import { type CountExchange, noOtherProcesses } from '../domain/bounded-counts.ts';
import type { SandboxId } from '../domain/ids.ts';
import { AccessRecorder, type RecordAccess } from './access-recorder.ts';
import { ApiProxy, type ApiProxyOptions } from './api-proxy.ts';
import { BoundedLog } from './bounded-log.ts';
import { defaultLimits, type GatewayLimits } from './connection-limits.ts';
import type { Exchange, ExchangeListener } from './exchange.ts';
import { FrameFloods } from './frame-floods.ts';
import { Http1Front } from './http1-front.ts';
import { Http2Front } from './http2-front.ts';
import type { HostTunnels } from './last-hop/last-hops.ts';
import { Listener } from './listener.ts';
import type { PageAssets } from './pages/page-assets.ts';
import type { SocketHandle } from './processes/bound-socket.ts';
import type { RouteTable } from './routes.ts';
import { SandboxProxy } from './sandbox-proxy.ts';
import type { CertificateSource } from './tls/certificates.ts';
import { UpstreamPool } from './upstream/pool.ts';

const drainTimeoutMs = 10_000;

export interface GatewayOptions {
  baseDomain: string;
  /** The base URL of the API, for links to its documentation. */
  apiUrl: string;
  trustProxy: boolean;
  /** Requests for `api.<base domain>` are forwarded to this API. Absent: that host is unknown. */
  api?: ApiProxyOptions;
  routes: RouteTable;
  /** The tunnels to sandboxes of other machines. Absent: all sandboxes are reached directly. */
  tunnels?: HostTunnels | null;
  certificates: CertificateSource;
  /** The pages `/terminal` and `/files`. */
  pages: PageAssets;
  /** Records that these sandboxes were used. Called at most once a minute, and at the end. */
  recordAccess: RecordAccess;
  logger: Logger;
  limits?: Partial<GatewayLimits>;
  /** The counts of the gateway's other processes. Absent: there are no other processes. */
  counts?: CountExchange;
  /** 48 bytes that encrypt TLS session tickets. Absent: a random key. */
  ticketKeys?: Buffer;
  accessIntervalMs?: number;
  /**
   * Called at the end of each request with the status of its response. 0: the client disconnected before the response
   * began.
   */
  onRequestEnd?: (status: number) => void;
}

export interface Gateway {
  /** Starts to listen. Rejects when the address is in use. */
  listen(port: number, host: string): Promise<net.AddressInfo>;
  /** Listens on a socket that another process has bound. */
  listenOn(socket: SocketHandle): Promise<net.AddressInfo>;
  /** Stops accepting, lets requests end for up to `drainMs` (10 s), then closes them. */
  close(drainMs?: number): Promise<void>;
  /** The numbers of open connections, and of sandboxes and clients with requests in progress. */
  stats(): { connections: number; sandboxes: number; clients: number };
}

/**
 * A gateway from `<sandbox>.<base domain>` to the sandbox: listener, HTTP/1.1 and HTTP/2, access decisions,
 * connections.
 */
export function createGateway(options: GatewayOptions): Gateway {
  const { baseDomain, apiUrl, trustProxy, routes, certificates, pages, logger } = options;
  const counts = options.counts ?? noOtherProcesses;
  const limits = { ...defaultLimits, ...options.limits };
  const pool = new UpstreamPool(routes, options.tunnels);
  const recorder = new AccessRecorder(options.recordAccess, logger, options.accessIntervalMs);
  const onAccess = (sandboxId: SandboxId) => recorder.touch(sandboxId);
  const log = new BoundedLog(logger);
  const api = options.api ? new ApiProxy(options.api, counts) : null;
  const proxy = new SandboxProxy({
    baseDomain,
    api,
    apiUrl,
    trustProxy,
    limits,
    counts,
    routes,
    pool,
    pages,
    onAccess,
    logger,
    log,
  });
  const front = {
    ...limits,
    log,
    getClient: (socket: net.Socket) => listener.getClient(socket),
    onExchange: countingEnds(proxy.handle.bind(proxy), options.onRequestEnd),
  };
  const http1 = new Http1Front(front);
  // Behind a proxy all clients have one address, so the flood of one client would count against all of them.
  const maxBytesPerSecond = trustProxy ? Number.POSITIVE_INFINITY : limits.maxOverheadBytesPerSecond;
  const http2 = new Http2Front({ ...front, floods: new FrameFloods({ maxBytesPerSecond, log }) });
  const listener = new Listener({
    certificate: certificates.current,
    limits,
    counts,
    ticketKeys: options.ticketKeys ?? null,
    logger,
    log,
    onHttp1: (socket) => http1.take(socket),
    onHttp2: (socket) => http2.take(socket),
  });
  certificates.watch((certificate) => listener.setCertificate(certificate));
  return {
    listen: (port, host) => listener.listen({ port, host }),
    listenOn: (socket) => listener.listen(socket),
    async close(drainMs = drainTimeoutMs) {
      const gone = listener.stop();
      http1.drain();
      http2.drain();
      const timer = setTimeout(() => listener.destroyAll(), drainMs);
      await gone;
      clearTimeout(timer);
      http1.close();
      http2.close();
      pool.close();
      api?.close();
      certificates.close();
      await recorder.close();
    },
    stats: () => ({ connections: listener.connectionCount, ...proxy.inProgress }),
  };
}

/** Calls `onEnd` after `handle` has ended an exchange. */
function countingEnds(handle: ExchangeListener, onEnd: ((status: number) => void) | undefined): ExchangeListener {
  if (!onEnd) return handle;
  return (exchange: Exchange) => {
    handle(exchange);
    const { onClosed } = exchange;
    exchange.onClosed = (completed) => {
      onClosed(completed);
      onEnd(exchange.responseStatus);
    };
  };
}
