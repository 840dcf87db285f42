import net from 'node:net';
import tls from 'node:tls';
import type { Logger } from 'pino';
import { BoundedCounts, type CountExchange } from '../domain/bounded-counts.ts';
import { clientKey } from '../domain/client-address.ts';
import { FairTurns } from '../domain/fair-turns.ts';
import type { BoundedLog } from './bounded-log.ts';
import type { GatewayLimits } from './connection-limits.ts';
import type { ClientConnection } from './exchange.ts';
import { guarded } from './fault-boundary.ts';
import type { SocketHandle } from './processes/bound-socket.ts';

const tlsHandshakeByte = 0x16;
/** The first bytes of HTTP/2 with prior knowledge. No method of HTTP/1.1 begins like this. */
const http2PrefaceStart = 'PRI';
/** The number of new connections that begin in one turn of the event loop. Their clients take turns. */
const startsPerTurn = 2;
/** The number of connections that the kernel queues until they are accepted. */
const listenBacklog = 4096;
const keepaliveProbeDelayMs = 30_000;

export interface Certificate {
  cert: string | Buffer;
  key: string | Buffer;
}

export interface ListenerOptions {
  certificate: Certificate;
  limits: GatewayLimits;
  counts: CountExchange;
  /** 48 bytes that encrypt TLS session tickets. Null: a random key. */
  ticketKeys: Buffer | null;
  logger: Logger;
  log: BoundedLog;
  onHttp1: (socket: net.Socket) => void;
  onHttp2: (socket: net.Socket) => void;
}

/** One port for all protocols: reads the first bytes of a connection and passes it to the server of its protocol. */
export class Listener {
  readonly #server: net.Server;
  readonly #tls: tls.Server;
  readonly #options: ListenerOptions;
  readonly #starts = new FairTurns(startsPerTurn);
  readonly #sockets = new Set<net.Socket>();
  /** Connections whose first bytes have not arrived yet. */
  readonly #silent = new Set<net.Socket>();
  readonly #all: BoundedCounts;
  readonly #perClient: BoundedCounts;
  /**
   * Connections over the limit get an error. If there are as many of these again, further ones are closed without an
   * error.
   */
  readonly #overPerClient: BoundedCounts;
  /** The client connection of each handshake by its peer, to find it again for the resulting TLS socket. */
  readonly #handshakes = new Map<string, ClientConnection>();
  readonly #clients = new WeakMap<net.Socket, ClientConnection>();

  constructor(options: ListenerOptions) {
    this.#options = options;
    const { limits, certificate, counts, log } = options;
    this.#all = new BoundedCounts(limits.maxConnections, 'connections', counts);
    this.#perClient = new BoundedCounts(limits.maxConnectionsPerClient, 'connections-of-client', counts);
    const over = Math.ceil(limits.maxConnectionsPerClient / 4);
    this.#overPerClient = new BoundedCounts(over, 'connections-over-of-client', counts);
    this.#server = net.createServer({
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepaliveProbeDelayMs,
    });
    const giveUp = (socket: net.Socket) => void socket.destroy();
    this.#server.on(
      'connection',
      guarded(log, (socket) => this.#onConnection(socket), giveUp),
    );
    this.#tls = tls.createServer({
      ...certificate,
      ALPNProtocols: ['h2', 'http/1.1'],
      minVersion: 'TLSv1.2',
      handshakeTimeout: limits.headersTimeoutMs,
      ...this.#tickets,
    });
    this.#tls.on(
      'secureConnection',
      guarded(log, (socket: tls.TLSSocket) => this.#onSecure(socket), giveUp),
    );
    this.#tls.on('tlsClientError', (error, socket) => {
      options.logger.debug({ err: error.message }, 'TLS handshake failed');
      socket.destroy();
    });
  }

  /** Starts to listen. Rejects when the address is in use. */
  listen(place: { port: number; host: string } | SocketHandle): Promise<net.AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.once('listening', () => {
        this.#server.off('error', reject);
        resolve(this.#server.address() as net.AddressInfo);
      });
      if ('port' in place) this.#server.listen({ ...place, backlog: listenBacklog });
      else this.#server.listen(place, listenBacklog);
    });
  }

  /** Uses the certificate for new handshakes. */
  setCertificate(certificate: Certificate): void {
    this.#tls.setSecureContext({ ...certificate, minVersion: 'TLSv1.2', ...this.#tickets });
  }

  get #tickets(): { ticketKeys?: Buffer } {
    const { ticketKeys } = this.#options;
    return ticketKeys ? { ticketKeys } : {};
  }

  getClient(socket: net.Socket): ClientConnection {
    return this.#clients.get(socket)!;
  }

  get connectionCount(): number {
    return this.#sockets.size;
  }

  /** Stops accepting, closes connections that have not sent a byte, and resolves when all connections are closed. */
  stop(): Promise<void> {
    for (const socket of this.#silent) socket.destroy();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #onConnection(socket: net.Socket): void {
    const address = socket.remoteAddress;
    if (!address) {
      socket.destroy();
      return;
    }
    if (!this.#all.tryAdd('')) {
      socket.destroy();
      return;
    }
    socket.once('close', () => this.#all.remove(''));
    const key = clientKey(address);
    const counts = this.#perClient.tryAdd(key) ? this.#perClient : this.#overPerClient;
    if (counts === this.#overPerClient && !counts.tryAdd(key)) {
      socket.destroy();
      return;
    }
    const client = { address, key, secure: false, serverName: null, isOneTooMany: counts === this.#overPerClient };
    this.#clients.set(socket, client);
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      counts.remove(key);
      this.#sockets.delete(socket);
    });
    this.#sniff(socket);
  }

  #sniff(socket: net.Socket): void {
    let isWaiting = true;
    const giveUp = () => {
      if (isWaiting) socket.destroy();
    };
    // If this process was suspended, timers run before the bytes that have arrived meanwhile. `setImmediate` lets those
    // bytes be read first.
    const timer = setTimeout(() => setImmediate(giveUp), this.#options.limits.headersTimeoutMs);
    this.#silent.add(socket);
    const stopWaiting = () => {
      isWaiting = false;
      clearTimeout(timer);
      this.#silent.delete(socket);
    };
    socket.once('close', stopWaiting);
    let first: Buffer = Buffer.alloc(0);
    const detect = guarded(
      this.#options.log,
      () => {
        const bytes: Buffer | null = socket.read();
        if (!bytes) return;
        first = Buffer.concat([first, bytes]);
        const start = first.toString('latin1', 0, http2PrefaceStart.length);
        // There are too few bytes to decide. Bytes are put back only after the decision, because they become readable
        // at once.
        if (start.length < http2PrefaceStart.length && http2PrefaceStart.startsWith(start)) return;
        socket.unshift(first);
        stopWaiting();
        socket.off('close', stopWaiting);
        socket.off('readable', detect);
        this.#starts.run(this.getClient(socket).key, () =>
          begin(first[0] === tlsHandshakeByte, start === http2PrefaceStart),
        );
      },
      () => socket.destroy(),
    );
    const begin = guarded(
      this.#options.log,
      (isTls: boolean, isHttp2: boolean) => {
        if (socket.destroyed) return;
        if (isTls) this.#startTls(socket);
        else if (isHttp2) this.#options.onHttp2(socket);
        else this.#options.onHttp1(socket);
      },
      () => socket.destroy(),
    );
    socket.on('readable', detect);
  }

  #startTls(socket: net.Socket): void {
    const peer = formatPeer(socket);
    this.#handshakes.set(peer, this.getClient(socket));
    socket.once('close', () => this.#handshakes.delete(peer));
    this.#tls.emit('connection', socket);
  }

  #onSecure(socket: tls.TLSSocket): void {
    socket.on('error', () => undefined);
    const serverName = typeof socket.servername === 'string' && socket.servername !== '' ? socket.servername : null;
    const client = this.#handshakes.get(formatPeer(socket));
    if (!client) {
      socket.destroy();
      return;
    }
    this.#clients.set(socket, { ...client, secure: true, serverName });
    if (socket.alpnProtocol === 'h2') this.#options.onHttp2(socket);
    else this.#options.onHttp1(socket);
  }
}

function formatPeer(socket: net.Socket): string {
  return `${socket.remoteAddress}|${socket.remotePort}`;
}
