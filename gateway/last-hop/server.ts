import net from 'node:net';
import tls from 'node:tls';
import ipaddr from 'ipaddr.js';
import type { Logger } from 'pino';
import {
  identityIn,
  type LastHopIdentity,
  type LastHopTarget,
  lastHopReplies,
  maxPrefaceBytes,
  readPreface,
} from '../../domain/hosts/last-hop.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { Credential, OwnCredential } from './credential.ts';
import type { HostPlaces } from './host-places.ts';
import type { Revocations } from './revocations.ts';

/** The time limit from the connection to the end of its first line. */
const defaultHandshakeMs = 5000;
const connectTimeoutMs = 5000;
const keepAliveProbeMs = 10_000;
const defaultMaxConnections = 20_000;
/** The number of connections, of all peers together, that have not shown a certificate and a first line yet. */
const defaultMaxUnproven = 512;
/** Statuses in which a sandbox keeps its processes, so that open tunnels may stay open. */
const keepsTunnels = new Set(['running', 'pausing', 'paused', 'resuming']);

/** The part of a route that the last hop needs. */
export interface PlacedSandbox {
  hostId: string | null;
  status: string;
  address: string | null;
}

/** The places of sandboxes, with announcements of changes. This is the gateway's own table of routes. */
export interface SandboxPlaces {
  find(sandboxId: SandboxId): Promise<PlacedSandbox | null>;
  dropUnlessNew(sandboxId: SandboxId): boolean;
  onChange(listener: (sandboxId: SandboxId | null) => void): void;
}

export interface LastHopServerOptions {
  credential: Pick<OwnCredential, 'identity' | 'current' | 'onNewer'>;
  revocations: Pick<Revocations, 'isRevoked' | 'onChange'>;
  routes: SandboxPlaces;
  hosts: HostPlaces;
  logger: Logger;
  handshakeTimeoutMs?: number;
  maxConnections?: number;
  maxUnproven?: number;
}

/** A connection under TLS. */
interface Accepted {
  raw: net.Socket;
  /** The peer has shown the certificate of a gateway. */
  isSecure: boolean;
  /** The peer has also sent a first line. */
  isProven: boolean;
  prove(): void;
}

interface Tunnel {
  peer: LastHopIdentity;
  target: LastHopTarget;
  address: string;
  /** The connection to the sandbox. */
  upstream: net.Socket;
  end(): void;
}

/** Why a connection got no tunnel. */
export const refusalReasons = [
  /** This end has no certificate yet. */
  'no_certificate',
  /** There are too many connections that have shown nothing yet. */
  'too_many',
  /** The peer did not complete TLS 1.3 in time with a valid certificate of this authority. */
  'handshake',
  /** The certificate is not one of a gateway, or it is revoked. */
  'identity',
  /** The first line is malformed or late. */
  'first_line',
  /** The sandbox does not run on this host, or this host was given up. */
  'not_here',
  /** No process listens on that port of the sandbox. */
  'port_closed',
] as const;
export type RefusalReason = (typeof refusalReasons)[number];

/** Counts since the start of the process. */
export interface LastHopCounts {
  /** The tunnels that were opened, and the open ones. */
  opened: number;
  open: number;
  refused: Readonly<Record<RefusalReason, number>>;
  /** Bytes through tunnels, without TLS and the first line. */
  bytesToSandboxes: number;
  bytesFromSandboxes: number;
}

/**
 * The end of the last hop on the sandbox's machine. It accepts only TLS 1.3 connections of gateways and APIs. Each is
 * for one connection to one port of one sandbox, which must run on this host and have an address in its network. It
 * connects to nothing else. A tunnel ends when its sandbox has ended or moved, its host was given up, or its peer is
 * revoked.
 */
export class LastHopServer {
  readonly #options: LastHopServerOptions;
  readonly #server: net.Server;
  readonly #accepted = new Map<string, Accepted>();
  readonly #tunnels = new Set<Tunnel>();
  readonly #refused = Object.fromEntries(refusalReasons.map((reason) => [reason, 0])) as Record<RefusalReason, number>;
  #tls: tls.Server | null = null;
  #unproven = 0;
  #opened = 0;
  /** The number of refusals so far, to log only some of them. */
  #logged = 0;
  /** The bytes of ended tunnels. */
  readonly #endedBytes = { to: 0, from: 0 };

  constructor(options: LastHopServerOptions) {
    this.#options = options;
    this.#server = net.createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = options.maxConnections ?? defaultMaxConnections;
    const { credential, revocations, routes } = options;
    credential.onNewer((each) => this.#use(each));
    if (credential.current) this.#use(credential.current);
    revocations.onChange(() => this.#endRevoked());
    routes.onChange((sandboxId) => void this.#recheck(sandboxId));
  }

  /**
   * Listens on every address of this machine. Other processes may listen on the same port. Rejects when it cannot
   * listen.
   */
  listen(port: number): Promise<net.AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, reusePort: true }, () => {
        this.#server.off('error', reject);
        this.#server.on('error', (error) => this.#options.logger.error({ err: error }, 'the last hop cannot listen'));
        resolve(this.#server.address() as net.AddressInfo);
      });
    });
  }

  /** Accepts no more connections. Open ones may end by themselves within `drainMs`. */
  async close(drainMs: number): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    const timer = setTimeout(() => {
      for (const { raw } of this.#accepted.values()) raw.destroy();
    }, drainMs);
    await closed;
    clearTimeout(timer);
  }

  get tunnelCount(): number {
    return this.#tunnels.size;
  }

  counts(): LastHopCounts {
    const upstreams = [...this.#tunnels].map(({ upstream }) => upstream);
    const sum = (of: (socket: net.Socket) => number) => upstreams.reduce((bytes, socket) => bytes + of(socket), 0);
    return {
      opened: this.#opened,
      open: this.#tunnels.size,
      refused: { ...this.#refused },
      bytesToSandboxes: this.#endedBytes.to + sum((socket) => socket.bytesWritten),
      bytesFromSandboxes: this.#endedBytes.from + sum((socket) => socket.bytesRead),
    };
  }

  #use({ key, certificate, authority }: Credential): void {
    const context = { key, cert: certificate, ca: authority };
    if (this.#tls) {
      this.#tls.setSecureContext({ ...context, minVersion: 'TLSv1.3' });
      return;
    }
    const { handshakeTimeoutMs = defaultHandshakeMs } = this.#options;
    this.#tls = tls.createServer({
      ...context,
      minVersion: 'TLSv1.3',
      requestCert: true,
      rejectUnauthorized: true,
      handshakeTimeout: handshakeTimeoutMs,
      noDelay: true,
    });
    this.#tls.on('secureConnection', (socket: tls.TLSSocket) => this.#onSecure(socket));
    this.#tls.on('tlsClientError', (error) => this.#refuse('handshake', error.message));
  }

  /** Until a connection has shown a certificate and a first line, it occupies one of few places and has little time. */
  #accept(raw: net.Socket): void {
    const { maxUnproven = defaultMaxUnproven, handshakeTimeoutMs = defaultHandshakeMs } = this.#options;
    raw.on('error', () => undefined);
    if (!this.#tls || this.#unproven >= maxUnproven) {
      this.#refuse(this.#tls ? 'too_many' : 'no_certificate');
      raw.destroy();
      return;
    }
    this.#unproven++;
    const key = formatKey(raw);
    const timer = setTimeout(() => {
      if (accepted.isSecure) this.#refuse('first_line', 'it did not come in time');
      raw.destroy();
    }, handshakeTimeoutMs);
    const accepted: Accepted = {
      raw,
      isSecure: false,
      isProven: false,
      prove: () => {
        if (accepted.isProven) return;
        accepted.isProven = true;
        this.#unproven--;
        clearTimeout(timer);
      },
    };
    this.#accepted.set(key, accepted);
    raw.once('close', () => {
      accepted.prove();
      this.#accepted.delete(key);
    });
    raw.setNoDelay(true);
    raw.setKeepAlive(true, keepAliveProbeMs);
    // If the peer closes before it has shown anything, the connection's place becomes free at once.
    raw.allowHalfOpen = false;
    this.#tls.emit('connection', raw);
  }

  #onSecure(socket: tls.TLSSocket): void {
    const accepted = this.#accepted.get(formatKey(socket));
    socket.on('error', () => socket.destroy());
    const peer = identityIn(socket.getPeerCertificate().subjectaltname);
    // A resumed session would keep a certificate in use after its expiry.
    if (socket.isSessionReused() || peer?.role !== 'gateway' || this.#options.revocations.isRevoked(peer)) {
      this.#refuse('identity');
      socket.destroy();
      return;
    }
    if (!accepted) {
      // The socket was closed meanwhile.
      socket.destroy();
      return;
    }
    accepted.isSecure = true;
    let line: Buffer = Buffer.alloc(0);
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (!chunk) return;
      line = Buffer.concat([line, chunk]);
      const end = line.indexOf(0x0a);
      if (end < 0 && line.length <= maxPrefaceBytes) return;
      socket.off('readable', onReadable);
      const target = end < 0 || end >= maxPrefaceBytes ? null : readPreface(line.toString('latin1', 0, end));
      if (!target) {
        this.#refuse('first_line', 'it is malformed');
        socket.destroy();
        return;
      }
      if (end + 1 < line.length) socket.unshift(line.subarray(end + 1));
      accepted.prove();
      socket.allowHalfOpen = true;
      this.#serve(socket, accepted.raw, { peer, target }).catch((error) => {
        this.#options.logger.error({ err: error }, 'a connection of the last hop failed');
        socket.destroy();
      });
    };
    socket.on('readable', onReadable);
    socket.once('end', () => {
      if (!accepted.isProven) socket.destroy();
    });
  }

  async #serve(
    socket: tls.TLSSocket,
    raw: net.Socket,
    { peer, target }: Pick<Tunnel, 'peer' | 'target'>,
  ): Promise<void> {
    const address = await this.#findAddress(target.sandboxId);
    if (socket.destroyed) return;
    if (!address) {
      this.#refuse('not_here', null);
      refuse(socket, target, lastHopReplies.notHere);
      return;
    }
    const upstream = await connect(address, target.port);
    if (socket.destroyed || !upstream) {
      upstream?.destroy();
      if (socket.destroyed) return;
      this.#refuse('port_closed', null);
      refuse(socket, target, lastHopReplies.refused);
      return;
    }
    this.#join({ socket, raw, upstream }, { peer, target, address });
    // The route may have changed while the connection was made.
    void this.#recheck(target.sandboxId);
  }

  #join(
    { socket, raw, upstream }: { socket: tls.TLSSocket; raw: net.Socket; upstream: net.Socket },
    of: Omit<Tunnel, 'upstream' | 'end'>,
  ): void {
    // A reset, because the peer must not take an incomplete reply for a complete one.
    const end = () => {
      if (!raw.destroyed) raw.resetAndDestroy();
      socket.destroy();
      upstream.destroy();
    };
    const tunnel: Tunnel = { ...of, upstream, end };
    this.#tunnels.add(tunnel);
    this.#opened++;
    upstream.on('error', end);
    socket.on('error', end);
    socket.once('close', () => {
      upstream.destroy();
      this.#tunnels.delete(tunnel);
      this.#endedBytes.to += upstream.bytesWritten;
      this.#endedBytes.from += upstream.bytesRead;
    });
    // The end of one direction is forwarded as such. A lost connection also closes the other one.
    upstream.once('close', (hadError) => {
      if (hadError || !upstream.readableEnded) end();
    });
    if (of.target.wantsReply) socket.write(lastHopReplies.connected);
    socket.pipe(upstream);
    upstream.pipe(socket);
  }

  /** The address of a sandbox that runs here. Null: it does not run here, or this host may not serve it. */
  async #findAddress(sandboxId: SandboxId): Promise<string | null> {
    const { routes } = this.#options;
    for (let isSecondTry = false; ; isSecondTry = true) {
      const route = await routes.find(sandboxId);
      const address = route?.status === 'running' && this.#isHere(route) ? route.address : null;
      if (address) return (await this.#isOwnAddress(address)) ? address : null;
      // The cached route may be older than the route that the peer has read.
      if (isSecondTry || !routes.dropUnlessNew(sandboxId)) return null;
    }
  }

  #isHere(route: PlacedSandbox): boolean {
    return route.hostId === this.#options.credential.identity.name;
  }

  async #isOwnAddress(address: string): Promise<boolean> {
    const host = await this.#options.hosts.find(this.#options.credential.identity.name);
    if (!host?.sandboxNetwork || host.isLost || !ipaddr.IPv4.isValidFourPartDecimal(address)) return false;
    return ipaddr.IPv4.parse(address).match(ipaddr.IPv4.parseCIDR(host.sandboxNetwork));
  }

  /** Ends the tunnels of a sandbox, or of all sandboxes, that their routes no longer allow. */
  async #recheck(sandboxId: SandboxId | null): Promise<void> {
    const affected = [...this.#tunnels].filter(({ target }) => sandboxId === null || target.sandboxId === sandboxId);
    for (const tunnel of affected) {
      let route: PlacedSandbox | null;
      try {
        route = await this.#options.routes.find(tunnel.target.sandboxId);
      } catch {
        // The route is unreadable now, so open tunnels may still be right. The next announcement brings another check.
        continue;
      }
      const isRight = route && this.#isHere(route) && route.address === tunnel.address;
      if (!isRight || !keepsTunnels.has(route!.status)) tunnel.end();
    }
  }

  #endRevoked(): void {
    for (const tunnel of this.#tunnels) if (this.#options.revocations.isRevoked(tunnel.peer)) tunnel.end();
  }

  /** @param detail a text for the log; null: an ordinary request of a peer, which is not logged */
  #refuse(reason: RefusalReason, detail: string | null = ''): void {
    this.#refused[reason]++;
    if (detail === null) return;
    // Only the first and then each hundredth refusal is logged, because any client can cause them.
    const refusals = this.#logged++;
    if (refusals % 100 !== 0) return;
    const fields = { reason, detail, refusals: this.#logged };
    this.#options.logger.warn(fields, 'a connection of the last hop was refused');
  }
}

/** The key is the same for a TLS socket and for its underlying socket. */
function formatKey(socket: net.Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
}

function refuse(socket: tls.TLSSocket, target: LastHopTarget, reply: string): void {
  if (target.wantsReply) socket.end(reply, () => socket.destroy());
  else socket.destroy();
}

/** Null: the port is closed or unreachable. */
function connect(host: string, port: number): Promise<net.Socket | null> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port, noDelay: true, allowHalfOpen: true, keepAlive: true });
    const fail = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve(null);
    };
    const timer = setTimeout(fail, connectTimeoutMs);
    socket.once('error', fail);
    socket.once('connect', () => {
      clearTimeout(timer);
      socket.off('error', fail);
      resolve(socket);
    });
  });
}
