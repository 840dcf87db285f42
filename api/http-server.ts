import http from 'node:http';
import type { Socket } from 'node:net';
import { BoundedCounts } from '../domain/bounded-counts.ts';
import { clientKey } from '../domain/client-address.ts';
import { FairTurns } from '../domain/fair-turns.ts';
import { limitPipelining } from '../platform/config/http-pipelining.ts';
import { JoiningRequest } from './joining-request.ts';

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

export interface HttpServerLimits {
  /** Connections of one address (IPv6: /64). Null behind a proxy, because all connections come from the proxy. */
  connectionsPerClient: number | null;
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
  /** Requests without a complete reply, oldest first. */
  waiting: [http.IncomingMessage, http.ServerResponse][];
}

/**
 * The API's HTTP server. A client that opens many connections, or pipelines many requests, does not delay others:
 * connections and requests begin in turns that all clients share evenly, and requests of one connection run one after
 * the other.
 */
export function createHttpServer(handler: Handler, limits: HttpServerLimits): http.Server {
  const { connectionsPerClient, headersTimeoutMs, requestTimeoutMs, timeoutCheckMs } = limits;
  const server = http.createServer({
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: timeoutCheckMs,
    IncomingMessage: JoiningRequest,
  });
  server.maxConnections = maxConnections;
  const counts = connectionsPerClient && new BoundedCounts(connectionsPerClient, 'connections-of-client');
  const starts = new FairTurns(startsPerTurn);
  const connections = new WeakMap<Socket, Connection>();
  server.on('request', oneAtATime(handler, connections));
  const listeners = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket) => {
    const key = clientOf(socket);
    if (key === null || (counts && !counts.tryAdd(key))) {
      socket.destroy();
      return;
    }
    if (counts) socket.once('close', () => counts.remove(key));
    const connection: Connection = { client: key, waiting: [] };
    connections.set(socket, connection);
    const ignore = () => undefined;
    socket.on('error', ignore);
    starts.run(key, () => {
      if (socket.destroyed) return;
      for (const listener of listeners) listener.call(server, socket);
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

function clientOf(socket: Socket): string | null {
  return socket.remoteAddress ? clientKey(socket.remoteAddress) : null;
}
