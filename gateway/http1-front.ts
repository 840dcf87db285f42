import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type net from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { limitPipelining } from '../platform/config/http-pipelining.ts';
import { unparsedRequestLine } from '../platform/config/unknown-methods.ts';
import type { BoundedLog } from './bounded-log.ts';
import { errorReply, GatewayError } from './error-reply.ts';
import type { ClientConnection, Exchange, ExchangeListener } from './exchange.ts';
import { FaultBoundary, guarded } from './fault-boundary.ts';
import { forwardableTrailers, trimSpace } from './header-fields.ts';
import { type BodySource, JoinedBody } from './joined-body.ts';
import { type RequestHeaders, readRequestHeaders } from './request-headers.ts';
import type { ResponseHead } from './upstream/response-parser.ts';
import { unreadBytes } from './waiting-bytes.ts';

/** How long the rest of a request is read and discarded after its response was sent. */
const discardTimeoutMs = 10_000;
/** A body up to this size is copied and sent with its head in one write. */
const copiedBodyBytes = 16 * 1024;
const keepaliveTimeoutMs = 65_000;
const maxHeaders = 200;
/** The number of requests of a connection that may wait for their responses. Above it the connection is closed. */
const maxPipelined = 64;
const drainCheckMs = 100;
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i;

export interface Http1FrontOptions {
  maxHeaderBytes: number;
  headersTimeoutMs: number;
  clientOf: (socket: net.Socket) => ClientConnection;
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
    const client = this.#options.clientOf(request.socket);
    const { log } = this.#options;
    const exchange = new Http1Exchange(request, response, client, isWebSocket, () => this.#isDraining, log);
    const exchanges = this.#open.get(request.socket)!;
    exchanges.add(exchange);
    exchange.onDone = () => exchanges.delete(exchange);
    const problem = this.#problemOf(exchange, request, expects);
    if (problem) exchange.refuse(problem);
    else this.#options.onExchange(exchange);
  }

  #problemOf(exchange: Http1Exchange, request: http.IncomingMessage, expects: boolean): GatewayError | null {
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
    else if (exchange) exchange.refuse(refusalOf(error));
    else refuseRaw(socket, refusalOf(error));
  }
}

class Http1Exchange implements Exchange {
  readonly requestId: string;
  readonly client: ClientConnection;
  readonly version: '1.0' | '1.1';
  readonly method: string;
  readonly target: string;
  readonly targetAuthority: string | null;
  readonly headers: RequestHeaders;
  readonly isWebSocket: boolean;
  readonly hasBody: boolean;
  readonly body: Readable;
  readonly #request: http.IncomingMessage;
  readonly #source: BodySource | null;
  readonly http2Stream = null;
  readonly faults: FaultBoundary;
  readonly #response: http.ServerResponse;
  readonly #isDraining: () => boolean;
  #awaitsContinue: boolean;
  #headSent = false;
  #headFlushed = false;
  #closed = false;
  onClosed: (completed: boolean) => void = () => undefined;
  /** Called when the exchange has ended, for the records of the front. */
  onDone: () => void = () => undefined;

  constructor(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    client: ClientConnection,
    isWebSocket: boolean,
    isDraining: () => boolean,
    log: BoundedLog,
  ) {
    this.faults = new FaultBoundary(this, log);
    this.#isDraining = isDraining;
    this.#request = request;
    this.#response = response;
    this.client = client;
    this.version = request.httpVersionMinor === 0 ? '1.0' : '1.1';
    this.method = request.method!;
    this.headers = readRequestHeaders(request.rawHeaders);
    this.requestId = acceptableRequestId(this.headers.requestId) ?? randomUUID();
    const absolute = request.url!.startsWith('/') ? null : absoluteForm.exec(request.url!);
    this.targetAuthority = absolute ? absolute[1]! : null;
    this.target = absolute ? (absolute[2]!.startsWith('/') ? absolute[2]! : `/${absolute[2]}`) : request.url!;
    this.isWebSocket = isWebSocket;
    const [contentLength] = this.headers.contentLengths;
    this.hasBody =
      this.headers.transferEncodings.length > 0 || (contentLength !== undefined && !/^0+$/.test(contentLength));
    this.#source = this.hasBody ? sourceOf(request) : null;
    this.body = this.#source ? new JoinedBody(client.key, this.#source) : request;
    this.#awaitsContinue = this.headers.expect !== null && this.version === '1.1';
    response.on('close', () => this.#close());
    response.on('error', () => undefined);
    request.on('error', () => undefined);
  }

  get trailers(): string[] {
    return forwardableTrailers(this.#request.rawTrailers);
  }

  get unreadBytes(): number {
    return this.body instanceof JoinedBody ? this.body.waitingBytes : unreadBytes(this.#request.socket);
  }

  get isRequestComplete(): boolean {
    return this.#request.complete || this.isWebSocket;
  }

  get isHeadSent(): boolean {
    return this.#headSent;
  }

  get canRefuse(): boolean {
    return !this.#closed && !this.#response.headersSent && !this.#response.destroyed;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get responseStatus(): number {
    return this.#headSent ? this.#response.statusCode : 0;
  }

  sendContinue(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.#response.writeContinue();
  }

  sendInformational(head: ResponseHead, flushed: () => void): boolean {
    if (this.version === '1.1' && this.canRefuse) {
      const response = this.#response;
      response.writeInformation(head.status, head.headers, flushed);
      return response.writableLength < response.writableHighWaterMark;
    }
    process.nextTick(flushed);
    return true;
  }

  sendHead(head: ResponseHead): void {
    this.#headSent = true;
    // A client that waits for `100 Continue` may still send the body or not, so its next bytes could be mistaken for a
    // request.
    if (this.#awaitsContinue || this.#isDraining()) this.#response.shouldKeepAlive = false;
    this.#response.writeHead(head.status, head.reason, head.headers);
  }

  flushHead(): void {
    if (this.#headFlushed || this.#response.writableEnded) return;
    this.#headFlushed = true;
    this.#response.flushHeaders();
  }

  sendBody(bytes: Buffer, flushed: () => void): boolean {
    const response = this.#response;
    const { socket } = response;
    if (socket && bytes.length > copiedBodyBytes) {
      this.flushHead();
      this.#writeDirect(socket, bytes, flushed);
      return socket.writableLength === 0;
    }
    this.#headFlushed = true;
    response.write(Buffer.from(bytes), flushed);
    // The bytes are copied, but a client that does not read must still slow down the sandbox.
    return response.writableLength < response.writableHighWaterMark;
  }

  finish(bytes: Buffer, trailers: string[], flushed: () => void): boolean {
    const response = this.#response;
    const { socket } = response;
    if (trailers.length > 0 && this.version === '1.1') response.addTrailers(pairsOf(trailers));
    let hasLeft = true;
    if (bytes.length === 0) response.end(flushed);
    else if (bytes.length <= copiedBodyBytes) {
      // Node sends a string together with the head in one write.
      response.end(bytes.toString('latin1'), 'latin1', flushed);
    } else {
      if (socket) {
        this.flushHead();
        this.#writeDirect(socket, bytes);
        hasLeft = socket.writableLength === 0;
        response.end(flushed);
      } else {
        hasLeft = false;
        response.end(bytes, flushed);
      }
    }
    this.#discardRest();
    return hasLeft;
  }

  refuse(error: GatewayError): void {
    const { headers, body } = errorReply(error, this.requestId);
    this.#headSent = true;
    if (this.#awaitsContinue || error.closesConnection || this.#isDraining()) this.#response.shouldKeepAlive = false;
    this.#response.writeHead(error.status, http.STATUS_CODES[error.status] ?? '', headers);
    this.#response.end(body);
    this.#discardRest();
  }

  accept(head: ResponseHead): Duplex {
    const { socket } = this.#response;
    if (!socket) throw new Error('the client has left');
    let text = `HTTP/1.1 101 ${head.reason || 'Switching Protocols'}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
    for (let i = 0; i < head.headers.length; i += 2) text += `${head.headers[i]}: ${head.headers[i + 1]}\r\n`;
    this.#headSent = true;
    this.#response.statusCode = 101;
    this.#response.detachSocket(socket);
    socket.on('close', () => this.#close());
    socket.setKeepAlive(true, 30_000);
    socket.write(`${text}\r\n`, 'latin1');
    return socket;
  }

  abort(): void {
    this.destroy();
  }

  destroy(): void {
    (this.#response.socket ?? this.#request.socket).destroy();
  }

  /** Bypasses the response object, which would copy or delay the bytes. */
  #writeDirect(socket: net.Socket, bytes: Buffer, flushed?: () => void): void {
    if (!this.#response.chunkedEncoding) {
      socket.write(bytes, flushed);
      return;
    }
    socket.cork();
    socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
    socket.write(bytes);
    socket.write('\r\n', 'latin1', flushed);
    socket.uncork();
  }

  /** The connection is closed, possibly before this response could begin. */
  connectionClosed(): void {
    this.#close();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onDone();
    this.faults.run(() => this.onClosed(this.#response.writableFinished));
  }

  /** Reads the client's remaining bytes for a limited time, so that the client can receive the response. */
  #discardRest(): void {
    if (this.isRequestComplete || this.#request.destroyed) return;
    const { socket } = this.#request;
    const timer = setTimeout(() => socket.destroy(), discardTimeoutMs).unref();
    this.#request.once('close', () => clearTimeout(timer));
    this.#request.removeAllListeners('data');
    this.#source?.resume();
    this.#request.resume();
  }
}

/** Pauses the connection and not the message, because a paused message would keep every small piece that was read. */
function sourceOf(request: http.IncomingMessage): BodySource {
  const { socket } = request;
  let isPaused = false;
  const readMore = request._read.bind(request);
  // Node asks for more data after each piece, which would resume a paused connection.
  request._read = (size) => {
    if (!isPaused) readMore(size);
  };
  return {
    stream: request,
    pause() {
      isPaused = true;
      socket.pause();
    },
    resume() {
      if (!isPaused) return;
      isPaused = false;
      socket.resume();
    },
  };
}

/** Keeps the caller's request id if it is harmless. */
export function acceptableRequestId(id: string | null): string | null {
  return id !== null && /^[A-Za-z0-9._-]{1,128}$/.test(id) ? id : null;
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

function refusalOf(error: NodeJS.ErrnoException): GatewayError {
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

function pairsOf(flat: string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i]!, flat[i + 1]!]);
  return pairs;
}
