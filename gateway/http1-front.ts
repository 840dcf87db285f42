import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type net from 'node:net';
import type { Duplex } from 'node:stream';
import { limitPipelining } from '../platform/config/http-pipelining.ts';
import { unparsedRequestLine } from '../platform/config/unknown-methods.ts';
import type { BoundedLog } from './bounded-log.ts';
import { errorReply, GatewayError } from './error-reply.ts';
import type { ClientConnection, ExchangeListener } from './exchange.ts';
import { guarded } from './fault-boundary.ts';
import { trimSpace } from './header-fields.ts';
import { Http1Exchange } from './http1-exchange.ts';

const keepaliveTimeoutMs = 65_000;
const maxHeaders = 200;
/** The number of requests of a connection that may wait for their responses. Above it the connection is closed. */
const maxPipelined = 64;
const drainCheckMs = 100;

export interface Http1FrontOptions {
  maxHeaderBytes: number;
  headersTimeoutMs: number;
  getClient: (socket: net.Socket) => ClientConnection;
  onExchange: ExchangeListener;
  log: BoundedLog;
}

/** HTTP/1.0 and 1.1 for clients. It gets connections from the listener and does not listen itself. */
export class Http1Front {
  readonly #server: http.Server;
  readonly #options: Http1FrontOptions;
  /** The requests in progress of each connection, oldest first. */
  readonly #open = new WeakMap<net.Socket, Set<Http1Exchange>>();
  #isDraining = false;
  #drainTimer: NodeJS.Timeout | null = null;

  constructor(options: Http1FrontOptions) {
    this.#options = options;
    const server = http.createServer({
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: options.headersTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, options.headersTimeoutMs),
      // There is no limit, because uploads and streams take as long as they need.
      requestTimeout: 0,
      keepAliveTimeout: keepaliveTimeoutMs,
      insecureHTTPParser: false,
      // The gateway itself refuses missing and repeated Host fields, with an explanation.
      requireHostHeader: false,
      // Other values of Upgrade are ignored, above all h2c, which would bypass every check of its requests. An upgrade
      // after requests without responses is refused, because those requests own the connection.
      shouldUpgradeCallback: (request) => isWebSocketRequest(request) && !this.#open.get(request.socket)?.size,
    });
    // Node would silently drop further fields, so the limit is checked later, where the request can be refused.
    server.maxHeadersCount = 0;
    const { log } = options;
    const onRequest = (expects: boolean) =>
      guarded(
        log,
        (request: http.IncomingMessage, response: http.ServerResponse) => this.#onRequest(request, response, expects),
        (request) => request.socket.destroy(),
      );
    server.on('request', onRequest(false));
    server.on('checkContinue', onRequest(true));
    server.on('checkExpectation', onRequest(true));
    const onUpgrade = (request: http.IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#onUpgrade(request, socket as net.Socket, head);
    const onConnect = (_request: http.IncomingMessage, socket: Duplex) => refuseRaw(socket, methodNotAllowed());
    const onClientError = (error: Error, socket: Duplex) => this.#onClientError(error, socket as net.Socket);
    const giveUp = (_first: unknown, socket: Duplex) => void socket.destroy();
    server.on('upgrade', guarded(log, onUpgrade, giveUp));
    server.on('connect', guarded(log, onConnect, giveUp));
    server.on('clientError', guarded(log, onClientError, giveUp));
    // A server that does not listen starts its check of slow headers only on this event.
    server.emit('listening');
    this.#server = server;
  }

  /** Takes a connection. Its first bytes were read and put back. */
  take(socket: net.Socket): void {
    const exchanges = new Set<Http1Exchange>();
    this.#open.set(socket, exchanges);
    socket.once('close', () => {
      for (const exchange of exchanges) exchange.connectionClosed();
    });
    this.#server.emit('connection', socket);
    // After Node's own listener, which refuses a request that its client has cut off.
    socket.once('end', () => {
      for (const exchange of exchanges) exchange.connectionEnded();
    });
    limitPipelining(socket, () => exchanges.size < maxPipelined);
  }

  /** Closes idle connections now and the others after their responses. */
  drain(): void {
    this.#isDraining = true;
    this.#server.closeIdleConnections();
    // The heads of responses that had begun allow the client to keep the connection open.
    this.#drainTimer = setInterval(() => this.#server.closeIdleConnections(), drainCheckMs).unref();
  }

  close(): void {
    if (this.#drainTimer) clearInterval(this.#drainTimer);
    // The server never listened, so `close` reports an error. It still stops the check of slow headers.
    this.#server.close(() => undefined);
    this.#server.closeAllConnections();
  }

  #onRequest(request: http.IncomingMessage, response: http.ServerResponse, expects: boolean): void {
    this.#begin(request, response, { expects, isWebSocket: false });
  }

  #onUpgrade(request: http.IncomingMessage, socket: net.Socket, head: Buffer): void {
    const response = new http.ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.on('finish', () => socket.destroySoon());
    socket.on('error', () => undefined);
    if (head.length > 0) socket.unshift(head);
    this.#begin(request, response, { expects: false, isWebSocket: true });
  }

  #begin(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    { expects, isWebSocket }: { expects: boolean; isWebSocket: boolean },
  ): void {
    const client = this.#options.getClient(request.socket);
    const { log } = this.#options;
    const exchange = new Http1Exchange(request, response, client, isWebSocket, () => this.#isDraining, log);
    const exchanges = this.#open.get(request.socket)!;
    exchanges.add(exchange);
    exchange.onDone = () => exchanges.delete(exchange);
    const problem = this.#findProblem(exchange, request, expects);
    if (problem) exchange.refuse(problem);
    else this.#options.onExchange(exchange);
  }

  #findProblem(exchange: Http1Exchange, request: http.IncomingMessage, expects: boolean): GatewayError | null {
    const { headers } = exchange;
    if (request.httpVersion !== '1.1' && request.httpVersion !== '1.0') {
      return new GatewayError(505, 'http_version_not_supported', 'This version of HTTP is not supported', {
        closesConnection: true,
      });
    }
    if (request.rawHeaders.length > maxHeaders * 2) return headersTooLarge();
    if (expects && headers.expect?.toLowerCase() !== '100-continue') {
      return new GatewayError(417, 'expectation_failed', 'Only Expect: 100-continue is supported');
    }
    // The parser refuses ambiguous codings. The other codings except plain `chunked` are never forwarded to a sandbox.
    if (headers.transferEncodings.length > 0) {
      const isChunked =
        headers.transferEncodings.length === 1 && headers.transferEncodings[0]!.toLowerCase() === 'chunked';
      if (!isChunked || exchange.version === '1.0') {
        return new GatewayError(501, 'transfer_encoding_not_supported', 'Only chunked transfer coding is supported', {
          closesConnection: true,
        });
      }
    }
    return null;
  }

  #onClientError(error: NodeJS.ErrnoException, socket: net.Socket): void {
    const [exchange, ...others] = this.#open.get(socket) ?? [];
    const isParseError = error.code?.startsWith('HPE_') || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    const isHalfAnswered = others.length > 0 || exchange?.isHeadSent;
    if (!isParseError || !socket.writable || isHalfAnswered) socket.destroy();
    else if (exchange) exchange.refuse(toGatewayError(error));
    else refuseRaw(socket, toGatewayError(error));
  }
}

export function methodNotAllowed(): GatewayError {
  return new GatewayError(405, 'method_not_allowed', 'This method is not forwarded');
}

function headersTooLarge(): GatewayError {
  return new GatewayError(431, 'headers_too_large', 'The header fields of the request are too large or too many', {
    closesConnection: true,
  });
}

function isWebSocketRequest(request: http.IncomingMessage): boolean {
  return (
    request.method === 'GET' &&
    request.httpVersionMinor === 1 &&
    trimSpace(request.headers.upgrade ?? '').toLowerCase() === 'websocket' &&
    request.headers['transfer-encoding'] === undefined &&
    /^0*$/.test(request.headers['content-length'] ?? '')
  );
}

function toGatewayError(error: NodeJS.ErrnoException): GatewayError {
  if (error.code === 'HPE_HEADER_OVERFLOW') return headersTooLarge();
  // The rest of the connection's bytes cannot be parsed.
  const options = { closesConnection: true };
  if (unparsedRequestLine(error))
    return new GatewayError(405, 'method_not_allowed', 'This method is not forwarded', options);
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new GatewayError(408, 'request_timeout', 'The header fields of the request did not arrive in time', options);
  }
  return new GatewayError(400, 'malformed_request', 'The request is not valid HTTP', options);
}

function refuseRaw(socket: Duplex, error: GatewayError): void {
  const { headers, body } = errorReply(error, randomUUID());
  let text = `HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}\r\nConnection: close\r\n`;
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  socket.on('error', () => undefined);
  socket.end(`${text}\r\n${body}`, () => socket.destroy());
}
