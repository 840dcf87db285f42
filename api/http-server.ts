import http, { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { BoundedCounts } from '../domain/bounded-counts.ts';
import { clientKey } from '../domain/client-address.ts';
import { FairTurns } from '../domain/fair-turns.ts';
import { limitPipelining } from '../platform/config/http-pipelining.ts';

/**
 * The maximum number of connections. Further ones are closed on accept. Each connection costs memory, and idle ones are
 * closed after a while.
 */
const maxConnections = 5_000;
/**
 * The number of connections and requests that begin in one turn of the event loop. The first bytes of a connection may
 * be 64 KiB of requests or of one-byte chunks, which take milliseconds to parse.
 */
const startsPerTurn = 2;
/** The number of requests that a connection may send before the first reply. Few clients send even two. */
const maxPipelined = 16;
/**
 * How long an idle connection stays open, in milliseconds. It is longer than the usual minute of load balancers and
 * client pools: if the server closes a connection first, a request that is sent at that moment is lost.
 */
const keepAliveTimeoutMs = 65_000;

interface HttpServerLimits {
  /** Connections of one address (IPv6: /64). Null behind a proxy, because all connections come from the proxy. */
  connectionsPerClient: number | null;
  /**
   * The address of the client for which the platform's gateway forwards a request. Such connections do not count,
   * because the gateway counts its clients itself. Null: an ordinary request.
   */
  readGatewayClient: (request: http.IncomingMessage) => string | null;
  /** The time from a request's first byte to the end of its head, or from the connect to the first byte. */
  headersTimeoutMs: number;
  /** The time to the end of the request's body. */
  requestTimeoutMs: number;
  /** How often connections are checked against both timeouts. */
  timeoutCheckMs: number;
}

type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void;

interface Connection {
  /** The key of the connection's client. */
  client: string;
  /** Takes the connection out of its client's count. */
  uncount: () => void;
  /** Requests without a complete reply, oldest first. */
  waiting: [http.IncomingMessage, http.ServerResponse][];
}

/**
 * The API's HTTP server. A client that opens many connections, or pipelines many requests, does not delay others:
 * connections and requests begin in turns that all clients share evenly, and requests of one connection run one after
 * the other.
 */
export function createHttpServer(handler: Handler, limits: HttpServerLimits): http.Server {
  const { connectionsPerClient, readGatewayClient, headersTimeoutMs, requestTimeoutMs, timeoutCheckMs } = limits;
  const server = http.createServer({
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    IncomingMessage: JoiningRequest,
  });
  server.maxConnections = maxConnections;
  const counts =
    connectionsPerClient === null ? null : new BoundedCounts(connectionsPerClient, 'connections-of-client');
  const starts = new FairTurns(startsPerTurn);
  const connections = new WeakMap<Socket, Connection>();
  const runInTurn = oneAtATime(handler, connections);
  server.on('request', (request, response) => {
    const address = readGatewayClient(request);
    if (address !== null) {
      const connection = connections.get(request.socket)!;
      connection.uncount();
      connection.client = clientKey(address);
    }
    runInTurn(request, response);
  });
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket) => {
    const key = readClientKey(socket);
    if (key === null || (counts && !counts.tryAdd(key))) {
      socket.destroy();
      return;
    }
    let isCounted = counts !== null;
    const uncount = () => {
      if (isCounted) counts?.remove(key);
      isCounted = false;
    };
    socket.once('close', uncount);
    const connection: Connection = { client: key, uncount, waiting: [] };
    connections.set(socket, connection);
    const ignore = () => undefined;
    socket.on('error', ignore);
    starts.run(key, () => {
      if (socket.destroyed) return;
      for (const listener of listeners) listener.call(server, socket);
      // From the client's end on, Node accepts no more of a reply. If the client does not read, the kernel would keep
      // what was written for a minute, and the handler would wait for it.
      socket.once('end', () => {
        if (connection.waiting.some(([, response]) => !response.writableEnded)) socket.destroy();
      });
      limitPipelining(socket, () => connection.waiting.length < maxPipelined);
      socket.off('error', ignore);
    });
  });
  return server;
}

/** Runs the requests of a connection one after the other. */
function oneAtATime(handler: Handler, connections: WeakMap<Socket, Connection>): Handler {
  const starts = new FairTurns(startsPerTurn);
  const begin = (connection: Connection): void => {
    const { client, waiting } = connection;
    const [next] = waiting;
    if (!next) return;
    const [request, response] = next;
    response.once('close', () => {
      waiting.shift();
      begin(connection);
    });
    starts.run(client, () => {
      if (!request.socket.destroyed) handler(request, response);
    });
  };
  return (request, response) => {
    // Stops parsing of the body. The socket is resumed when the handler reads the body.
    if (hasBody(request)) request.socket.pause();
    const connection = connections.get(request.socket)!;
    connection.waiting.push([request, response]);
    if (connection.waiting.length === 1) begin(connection);
  };
}

function hasBody({ headers }: http.IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function readClientKey(socket: Socket): string | null {
  return socket.remoteAddress ? clientKey(socket.remoteAddress) : null;
}

/** Pieces of at least this size are passed on without joining. */
const largePieceBytes = 4 * 1024;
/** Joined pieces are passed on when they reach this size. */
const joinedBytes = 16 * 1024;
/** This many pieces are kept before they are copied into one. */
const keptPieces = 64;
/**
 * From this many pieces on, the connection is closed if the body's pieces are on average smaller than
 * `minAverageBytes`. No client's HTTP library sends such a body, and Node takes up to 20 ms to parse 64 KiB of
 * one-byte chunks.
 */
const countedPieces = 1024;
const minAverageBytes = 16;

/**
 * A request with bounded memory per byte of its body. A client may send one-byte chunks, and Node makes a buffer of
 * hundreds of bytes for each: 64 KiB of them would take 16 MiB. So pieces that arrive together are joined, and a body
 * of many tiny pieces closes the connection. Nothing after the data that arrived with the head is read until a handler
 * reads the body.
 */
class JoiningRequest extends IncomingMessage {
  #pieces: Buffer[] = [];
  #heldBytes = 0;
  #isScheduled = false;
  #isWanted = false;
  #arrivedPieces = 0;
  #arrivedBytes = 0;

  override push(piece: Buffer | null): boolean {
    if (this.destroyed) return false;
    if (piece && this.#isTinyPieces(piece)) {
      this.#pieces = [];
      this.destroy();
      return false;
    }
    if (piece === null || piece.length >= largePieceBytes) {
      this.#flush();
      return super.push(piece);
    }
    this.#pieces.push(piece);
    this.#heldBytes += piece.length;
    if (this.#heldBytes >= joinedBytes) return this.#flush();
    if (this.#pieces.length === keptPieces) this.#pieces = [Buffer.concat(this.#pieces)];
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      // This runs after the parser has passed on all data of the current read.
      setImmediate(() => {
        this.#isScheduled = false;
        this.#flush();
      });
    }
    return this.readableLength + this.#heldBytes < this.readableHighWaterMark;
  }

  override _read(size: number): void {
    if (this.#isWanted) super._read(size);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the type of the overridden method
  override on(event: string | symbol, listener: (...args: any[]) => void): this {
    if (event === 'data' || event === 'readable') this.#want();
    return super.on(event, listener);
  }

  override resume(): this {
    this.#want();
    return super.resume();
  }

  #want(): void {
    if (this.#isWanted) return;
    this.#isWanted = true;
    if (!this.complete) super._read(0);
  }

  #isTinyPieces(piece: Buffer): boolean {
    this.#arrivedPieces++;
    this.#arrivedBytes += piece.length;
    return this.#arrivedPieces >= countedPieces && this.#arrivedBytes < this.#arrivedPieces * minAverageBytes;
  }

  #flush(): boolean {
    if (this.#pieces.length === 0) return true;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#heldBytes = 0;
    return super.push(bytes);
  }
}
