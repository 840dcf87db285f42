import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type net from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import type { BoundedLog } from './bounded-log.ts';
import { errorReply, type GatewayError } from './error-reply.ts';
import type { ClientConnection, Exchange } from './exchange.ts';
import { FaultBoundary } from './fault-boundary.ts';
import { forwardableTrailers } from './header-fields.ts';
import { type BodySource, JoinedBody } from './joined-body.ts';
import { type RequestHeaders, readRequestHeaders } from './request-headers.ts';
import type { ResponseHead } from './upstream/response-parser.ts';
import { unreadBytes } from './waiting-bytes.ts';

/** How long the rest of a request is read and discarded after its response was sent. */
const discardTimeoutMs = 10_000;
/** A body up to this size is copied and sent with its head in one write. */
const copiedBodyBytes = 16 * 1024;
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i;

/** One request of HTTP/1.0 or 1.1 and its response. */
export class Http1Exchange implements Exchange {
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
    this.#source = this.hasBody ? toBodySource(request) : null;
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
    if (trailers.length > 0 && this.version === '1.1') response.addTrailers(toPairs(trailers));
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

  /**
   * The client has ended its side of the connection, so Node accepts no more of the response. If the client does not
   * read, the kernel would keep what was written for a minute, and the request would run on in the sandbox.
   */
  connectionEnded(): void {
    if (!this.isWebSocket && !this.#response.writableEnded) this.destroy();
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
function toBodySource(request: http.IncomingMessage): BodySource {
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

function toPairs(flat: string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i]!, flat[i + 1]!]);
  return pairs;
}
