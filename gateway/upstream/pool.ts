import type { SandboxId } from '../../domain/ids.ts';
import type { HostTunnels } from '../last-hop/last-hops.ts';
import type { TunnelPlace } from '../last-hop/tunnel.ts';
import type { RouteTable, SandboxRoute } from '../routes.ts';
import { GrpcSession, openSocket } from './grpc-session.ts';
import { Http1Connection } from './http1-connection.ts';
import { directOpening, loopbackOpening, type Opening, PortClosed, SandboxUnreachable } from './opening.ts';

/** Statuses in which a sandbox keeps its processes, so that open exchanges may continue. */
const keepsConnections = new Set(['running', 'pausing', 'paused', 'resuming']);
const maxIdlePerPort = 64;
/** How long an idle connection is kept if the server does not give its own limit. */
const defaultIdleMs = 4000;
/** The same for a request that could not be repeated if the server closed the connection just then. */
const defaultIdleOnceMs = 1000;
const maxIdleMs = 55_000;
/**
 * Subtracted from the server's keep-alive time, so that the server does not close the connection just as a request is
 * sent.
 */
const idleMarginMs = 1000;
const sweepIntervalMs = 1000;

/** All open connections to one sandbox at one address. */
interface SandboxUpstreams {
  sandboxId: SandboxId;
  hostId: string | null;
  address: string;
  agent: { port: number; platformToken: string };
  closed: boolean;
  connecting: number;
  connections: Map<Http1Connection, number>;
  /** By port. The longest idle connection is first. */
  idle: Map<number, Http1Connection[]>;
  sessions: Map<number, GrpcSession>;
}

/**
 * Connections to sandboxes. They belong to a sandbox and not only to an address: when a route changes, the connections
 * to the old address are closed. So an old connection never reaches another sandbox that gets the address.
 */
export class UpstreamPool {
  readonly #routes: RouteTable;
  readonly #tunnels: HostTunnels | null;
  readonly #sandboxes = new Map<SandboxId, SandboxUpstreams>();
  readonly #owners = new WeakMap<Http1Connection, SandboxUpstreams>();
  readonly #sweeper: NodeJS.Timeout;

  /** @param tunnels null: every sandbox is reached directly */
  constructor(routes: RouteTable, tunnels: HostTunnels | null = null) {
    this.#routes = routes;
    this.#tunnels = tunnels;
    routes.onChange((sandboxId) => {
      if (sandboxId !== null) void this.#recheck(sandboxId);
      else for (const id of this.#sandboxes.keys()) void this.#recheck(id);
    });
    this.#sweeper = setInterval(() => this.#sweep(), sweepIntervalMs).unref();
  }

  /**
   * A connection to a port. `replayable`: may be an idle one. `once`: may be an idle one only if the server certainly
   * still waits for a request. `fresh`: a new one.
   * @throws {SandboxUnreachable}
   */
  async acquire(route: SandboxRoute, port: number, need: 'replayable' | 'once' | 'fresh'): Promise<Http1Connection> {
    const upstreams = this.#of(route);
    const idle = need === 'fresh' ? undefined : upstreams.idle.get(port);
    for (let latest = idle?.at(-1); latest; latest = idle?.at(-1)) {
      const fit = isFit(latest, need);
      if (fit === 'later') break;
      idle!.pop();
      if (fit === 'now') return latest;
      latest.destroy();
    }
    const connection = await this.#connect(upstreams, port);
    this.#owners.set(connection, upstreams);
    upstreams.connections.set(connection, port);
    connection.onClosed = () => this.#forget(upstreams, connection);
    return connection;
  }

  /** Takes back a connection. Its response was sent completely. */
  release(connection: Http1Connection): void {
    const upstreams = this.#owners.get(connection);
    const port = upstreams?.connections.get(connection);
    if (!upstreams || port === undefined || upstreams.closed || !connection.isReusable) {
      connection.destroy();
      return;
    }
    connection.detach();
    let idle = upstreams.idle.get(port);
    if (!idle) {
      idle = [];
      upstreams.idle.set(port, idle);
    }
    idle.push(connection);
    if (idle.length > maxIdlePerPort) idle.shift()?.destroy();
  }

  /** An HTTP/2 connection to a port, shared by its calls. */
  grpcSession(route: SandboxRoute, port: number): GrpcSession {
    const upstreams = this.#of(route);
    const known = upstreams.sessions.get(port);
    if (known?.isUsable) return known;
    const session = new GrpcSession(this.#open(upstreams, port, openSocket));
    upstreams.sessions.set(port, session);
    session.onClosed = () => {
      if (upstreams.sessions.get(port) === session) upstreams.sessions.delete(port);
      this.#forgetIfEmpty(upstreams);
    };
    return session;
  }

  /** Closes everything at once. */
  close(): void {
    clearInterval(this.#sweeper);
    for (const upstreams of [...this.#sandboxes.values()]) this.#closeAll(upstreams);
  }

  #of(route: SandboxRoute): SandboxUpstreams {
    const known = this.#sandboxes.get(route.sandboxId);
    if (known?.address === route.address && known.hostId === route.hostId) return known;
    if (known) this.#closeAll(known);
    const upstreams: SandboxUpstreams = {
      sandboxId: route.sandboxId,
      hostId: route.hostId,
      address: route.address!,
      agent: { port: route.agentPort, platformToken: route.platformToken },
      closed: false,
      connecting: 0,
      connections: new Map(),
      idle: new Map(),
      sessions: new Map(),
    };
    this.#sandboxes.set(route.sandboxId, upstreams);
    return upstreams;
  }

  async #connect(upstreams: SandboxUpstreams, port: number): Promise<Http1Connection> {
    upstreams.connecting++;
    try {
      const { address } = upstreams;
      const connection = await this.#open(upstreams, port, (opening) => Http1Connection.connect(address, opening));
      if (!upstreams.closed) return connection;
      connection.destroy();
      throw new SandboxUnreachable('the route changed while connecting');
    } finally {
      upstreams.connecting--;
      // Runs after the caller has registered the connection.
      setImmediate(() => this.#forgetIfEmpty(upstreams));
    }
  }

  /**
   * Connects to the sandbox's address, and then, if nothing listens there, to its loopback addresses: most development
   * servers listen only on those.
   */
  async #open<T>(upstreams: SandboxUpstreams, port: number, connect: (opening: Opening) => Promise<T>): Promise<T> {
    const { sandboxId, address, agent } = upstreams;
    const place = { sandboxId, address, tunnel: await this.#tunnelTo(upstreams.hostId) };
    try {
      return await connect(directOpening(place, port));
    } catch (error) {
      if (!(error instanceof PortClosed)) throw error;
      if (port === agent.port) throw new SandboxUnreachable('the agent does not listen', { cause: error });
      return await connect(loopbackOpening(place, port, agent)).catch(() => {
        throw error;
      });
    }
  }

  /** Null: directly. */
  async #tunnelTo(hostId: string | null): Promise<TunnelPlace | null> {
    try {
      return this.#tunnels && hostId ? await this.#tunnels.tunnelTo(hostId) : null;
    } catch (error) {
      throw new SandboxUnreachable('its machine is not reached', { cause: error });
    }
  }

  /** Checks a route that may have changed, and closes the connections that it no longer allows. */
  async #recheck(sandboxId: SandboxId): Promise<void> {
    const upstreams = this.#sandboxes.get(sandboxId);
    if (!upstreams) return;
    let route: SandboxRoute | null;
    try {
      route = await this.#routes.find(sandboxId);
    } catch {
      // The route is unreadable now, so idle connections are not reused, while open exchanges may still be right. The
      // next announcement brings another check.
      this.#closeIdle(upstreams);
      return;
    }
    if (upstreams.closed) return;
    if (
      !route ||
      route.address !== upstreams.address ||
      route.hostId !== upstreams.hostId ||
      !keepsConnections.has(route.status)
    ) {
      this.#closeAll(upstreams);
    } else if (route.status !== 'running') {
      this.#closeIdle(upstreams);
    }
  }

  #closeIdle(upstreams: SandboxUpstreams): void {
    const idle = [...upstreams.idle.values()].flat();
    upstreams.idle.clear();
    for (const connection of idle) connection.destroy();
    for (const session of upstreams.sessions.values()) session.closeWhenIdle();
  }

  #closeAll(upstreams: SandboxUpstreams): void {
    upstreams.closed = true;
    if (this.#sandboxes.get(upstreams.sandboxId) === upstreams) this.#sandboxes.delete(upstreams.sandboxId);
    for (const connection of [...upstreams.connections.keys()]) connection.abort();
    for (const session of [...upstreams.sessions.values()]) session.abort();
  }

  #sweep(): void {
    const now = performance.now();
    for (const upstreams of this.#sandboxes.values()) {
      for (const idle of upstreams.idle.values()) {
        const expired = idle.filter((connection) => now - connection.idleSinceMs >= idleLimitMs(connection));
        for (const connection of expired) {
          idle.splice(idle.indexOf(connection), 1);
          connection.destroy();
        }
      }
    }
  }

  #forget(upstreams: SandboxUpstreams, connection: Http1Connection): void {
    const port = upstreams.connections.get(connection);
    upstreams.connections.delete(connection);
    const idle = port === undefined ? undefined : upstreams.idle.get(port);
    const at = idle?.indexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
    this.#forgetIfEmpty(upstreams);
  }

  #forgetIfEmpty(upstreams: SandboxUpstreams): void {
    if (upstreams.connecting > 0 || upstreams.connections.size > 0 || upstreams.sessions.size > 0) return;
    if (this.#sandboxes.get(upstreams.sandboxId) === upstreams) this.#sandboxes.delete(upstreams.sandboxId);
  }
}

/**
 * Whether an idle connection may carry a request. `later`: not this one, but one that can be repeated. `never`: none, as
 * its server may have closed it.
 */
export function isFit(connection: Http1Connection, need: 'replayable' | 'once' | 'fresh'): 'now' | 'later' | 'never' {
  const idleMs = performance.now() - connection.idleSinceMs;
  if (!connection.isOpen || idleMs >= idleLimitMs(connection)) return 'never';
  if (need === 'once' && connection.keepAliveTimeoutMs === null && idleMs >= defaultIdleOnceMs) return 'later';
  return 'now';
}

function idleLimitMs(connection: Http1Connection): number {
  const { keepAliveTimeoutMs } = connection;
  if (keepAliveTimeoutMs === null) return defaultIdleMs;
  return Math.min(Math.max(0, keepAliveTimeoutMs - idleMarginMs), maxIdleMs);
}
