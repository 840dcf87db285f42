import { randomUUID } from 'node:crypto';
import http2 from 'node:http2';
import type net from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import type { BoundedLog } from './bounded-log.ts';
import { errorReply, type GatewayError } from './error-reply.ts';
import type { ClientConnection, Exchange, ExchangeListener } from './exchange.ts';
import { FaultBoundary, guarded } from './fault-boundary.ts';
import type { FrameFloods, UsefulBytes } from './frame-floods.ts';
import { forwardableTrailers, http2Headers } from './header-fields.ts';
import { acceptableRequestId } from './http1-exchange.ts';
import { JoinedBody } from './joined-body.ts';
import { type RequestHeaders, readRequestHeaders } from './request-headers.ts';
import type { ResponseHead } from './upstream/response-parser.ts';
import { unreadBytes } from './waiting-bytes.ts';

const { NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;
/** An idle connection is closed after this time. The first request must arrive earlier. */
const idleSessionMs = 65_000;
const copiedBodyBytes = 16 * 1024;
const uploadWindowBytes = 512 * 1024;
/** A 205 response has no body, even with a Content-Length (RFC 9110 §15.3.6). */
const resetContent = 205;
/** How long a reset may wait to be sent, because a client that does not read never receives it. */
const resetTimeoutMs = 1000;
/** SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 §6.5 and 6.8): the reply to a refused connection. */
const refusal = Buffer.from('000000040000000000' + '000008070000000000' + '00000000' + '0000000b', 'hex');

export interface Http2FrontOptions {
  maxHeaderBytes: number;
  /** The time limit for the first request of a connection. */
  headersTimeoutMs: number;
  maxStreamsPerConnection: number;
  getClient: (socket: net.Socket) => ClientConnection;
  onExchange: ExchangeListener;
  floods: FrameFloods;
  log: BoundedLog;
}

/** HTTP/2 for clients, by ALPN or by prior knowledge. It does not listen itself. */
export class Http2Front {
  readonly #server: http2.Http2Server;
  readonly #options: Http2FrontOptions;
  readonly #sessions = new Map<http2.ServerHttp2Session, { client: ClientConnection; useful: UsefulBytes }>();

  /** The connection that is currently handed over. */
  #taken: net.Socket | null = null;

  constructor(options: Http2FrontOptions) {
    this.#options = options;
    const server = http2.createServer({
      settings: {
        enablePush: false,
        enableConnectProtocol: true,
        maxConcurrentStreams: options.maxStreamsPerConnection,
        maxHeaderListSize: options.maxHeaderBytes,
        // The gateway keeps at most this many bytes of each upload for a sandbox that does not read.
        initialWindowSize: uploadWindowBytes,
      },
      maxHeaderListPairs: 200,
      maxSessionInvalidFrames: 100,
      maxSessionRejectedStreams: 100,
      // The limits of rapid resets: a burst, then a few per second.
      streamResetBurst: 200,
      streamResetRate: 33,
    });
    const { log } = options;
    const onStream = (
      stream: http2.ServerHttp2Stream,
      headers: http2.IncomingHttpHeaders,
      flags: number,
      rawHeaders: string[],
    ) => this.#onStream(stream, headers, flags, rawHeaders);
    server.on(
      'stream',
      guarded(log, onStream, (stream) => stream.close(NGHTTP2_INTERNAL_ERROR)),
    );
    // Node emits the event synchronously during the hand-over.
    const onSession = (session: http2.ServerHttp2Session) => this.#watch(session, this.#taken!);
    server.on(
      'session',
      guarded(log, onSession, (session) => session.destroy()),
    );
    server.on('sessionError', () => undefined);
    this.#server = server;
  }

  /** Takes a connection. Its first bytes were read and put back. */
  take(socket: net.Socket): void {
    if (!this.#options.floods.mayConnect(this.#options.getClient(socket).key)) {
      socket.end(refusal, () => socket.destroy());
      return;
    }
    this.#taken = socket;
    this.#server.emit('connection', socket);
  }

  /** Lets requests in progress end and accepts no more. */
  drain(): void {
    for (const session of this.#sessions.keys()) session.close();
  }

  close(): void {
    for (const session of this.#sessions.keys()) session.destroy();
  }

  #watch(session: http2.ServerHttp2Session, socket: net.Socket): void {
    const client = this.#options.getClient(socket);
    const useful = this.#options.floods.watch({
      clientKey: client.key,
      receivedBytes: () => socket.bytesRead,
      end: () => session.destroy(new Error('a flood of frames'), NGHTTP2_ENHANCE_YOUR_CALM),
    });
    this.#sessions.set(session, { client, useful });
    session.on('error', () => undefined);
    session.on('close', () => {
      this.#sessions.delete(session);
      useful.stop();
    });
    let openStreams = 0;
    // The session's own timeout is not used, because slowly arriving bytes would postpone it forever.
    let timer: NodeJS.Timeout | null = null;
    const expireAfter = (ms: number) => {
      timer = setTimeout(() => {
        session.close();
        // Incomplete headers keep a closed session open.
        setTimeout(() => session.destroy(), 1000).unref();
      }, ms).unref();
    };
    expireAfter(this.#options.headersTimeoutMs);
    session.on('close', () => timer && clearTimeout(timer));
    session.on('stream', (stream) => {
      openStreams++;
      if (timer) clearTimeout(timer);
      stream.once('close', () => {
        if (--openStreams === 0 && !session.closed) expireAfter(idleSessionMs);
      });
    });
  }

  #onStream(
    stream: http2.ServerHttp2Stream,
    headers: http2.IncomingHttpHeaders,
    flags: number,
    rawHeaders: string[],
  ): void {
    stream.on('error', () => undefined);
    const session = stream.session as http2.ServerHttp2Session;
    const watched = this.#sessions.get(session);
    if (!watched) {
      stream.close(NGHTTP2_INTERNAL_ERROR);
      return;
    }
    const { client, useful } = watched;
    const exchange = new Http2Exchange(stream, headers, flags, rawHeaders, client, this.#options.log);
    stream.on('close', () => {
      if (stream.rstCode === NGHTTP2_NO_ERROR) useful.addAnswer();
      else if (!exchange.isBrokenOff && !session.destroyed) useful.addReset();
    });
    countBody(stream, useful);
    this.#options.onExchange(exchange);
  }
}

class Http2Exchange implements Exchange {
  readonly requestId: string;
  readonly client: ClientConnection;
  readonly version = '2';
  readonly method: string;
  readonly target: string;
  readonly targetAuthority: string | null;
  readonly headers: RequestHeaders;
  readonly isWebSocket: boolean;
  readonly hasBody: boolean;
  readonly http2Stream: http2.ServerHttp2Stream;
  readonly faults: FaultBoundary;
  trailers: string[] = [];
  #responseTrailers: string[] = [];
  #body: JoinedBody | null = null;
  #awaitsContinue: boolean;
  #status = 0;
  #pendingHead: ResponseHead | null = null;
  #closed = false;
  /** The gateway ended it before its response was complete. */
  isBrokenOff = false;
  onClosed: (completed: boolean) => void = () => undefined;

  constructor(
    stream: http2.ServerHttp2Stream,
    headers: http2.IncomingHttpHeaders,
    flags: number,
    rawHeaders: string[],
    client: ClientConnection,
    log: BoundedLog,
  ) {
    this.faults = new FaultBoundary(this, log);
    this.http2Stream = stream;
    this.client = client;
    this.headers = readRequestHeaders(withoutPseudo(rawHeaders));
    this.requestId = acceptableRequestId(this.headers.requestId) ?? randomUUID();
    const method = headers[':method'] ?? '';
    // A WebSocket in HTTP/2 (RFC 8441) becomes a GET to the sandbox.
    this.isWebSocket = method === 'CONNECT' && headers[':protocol'] === 'websocket';
    this.method = this.isWebSocket ? 'GET' : method;
    this.target = headers[':path'] ?? '';
    this.targetAuthority = headers[':authority'] ?? null;
    this.hasBody = !this.isWebSocket && (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) === 0;
    this.#awaitsContinue = this.headers.expect?.toLowerCase() === '100-continue';
    stream.on('trailers', (_headers, _flags, ...rest) => {
      const [raw] = rest as unknown as [string[] | undefined];
      this.trailers = forwardableTrailers(raw ?? []);
    });
    stream.on('close', () => this.#close());
  }

  /** Made on demand, because a gRPC call reads the stream itself. */
  get body(): Readable {
    const { http2Stream: stream } = this;
    this.#body ??= new JoinedBody(this.client.key, {
      stream,
      pause: () => stream.pause(),
      resume: () => stream.resume(),
    });
    return this.#body;
  }

  get unreadBytes(): number {
    return this.#body ? this.#body.waitingBytes : unreadBytes(this.http2Stream);
  }

  get isRequestComplete(): boolean {
    return !this.hasBody || this.http2Stream.readableEnded || this.isWebSocket;
  }

  get isHeadSent(): boolean {
    return this.#status !== 0 || this.http2Stream.headersSent;
  }

  get canRefuse(): boolean {
    return this.#isWritable && !this.http2Stream.headersSent;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get responseStatus(): number {
    return this.#status || Number(this.http2Stream.sentHeaders?.[':status'] ?? 0);
  }

  sendContinue(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    if (this.#isWritable) this.http2Stream.additionalHeaders({ ':status': 100 });
  }

  sendInformational(head: ResponseHead, flushed: () => void): boolean {
    if (head.status !== 100 && this.canRefuse) {
      this.http2Stream.additionalHeaders({ ':status': head.status, ...http2Headers(head.headers) });
    }
    // HTTP/2 does not report when a header block was sent, so only the limit of an exchange's 1xx replies bounds them.
    process.nextTick(flushed);
    return true;
  }

  sendHead(head: ResponseHead): void {
    this.#status = head.status;
    this.#pendingHead = head;
  }

  flushHead(): void {
    this.#respond(false);
  }

  sendBody(bytes: Buffer, flushed: () => void): boolean {
    this.#respond(false);
    if (!this.#isWritable) return false;
    if (this.http2Stream.writableEnded) {
      // For a 205, Node has already ended the stream.
      process.nextTick(flushed);
      return true;
    }
    if (bytes.length <= copiedBodyBytes) {
      this.http2Stream.write(Buffer.from(bytes), flushed);
      return !this.http2Stream.writableNeedDrain;
    }
    this.http2Stream.write(bytes, flushed);
    return this.http2Stream.writableLength === 0;
  }

  finish(bytes: Buffer, trailers: string[], flushed: () => void): boolean {
    this.#responseTrailers = trailers;
    const isEmpty = bytes.length === 0 && trailers.length === 0;
    this.#respond(isEmpty);
    // For HEAD, 204 and 304, Node has already ended the stream.
    if (!this.#isWritable || this.http2Stream.writableEnded) return true;
    if (isEmpty) this.http2Stream.end(flushed);
    else if (bytes.length <= copiedBodyBytes) this.http2Stream.end(Buffer.from(bytes), flushed);
    else this.http2Stream.end(bytes, flushed);
    this.#discardRest();
    return bytes.length <= copiedBodyBytes;
  }

  refuse(error: GatewayError): void {
    const { headers, body } = errorReply(error, this.requestId);
    this.#status = error.status;
    this.#pendingHead = null;
    if (!this.#isWritable) return;
    const isHead = this.method === 'HEAD';
    this.http2Stream.respond({ ':status': error.status, ...http2Headers(headers) }, { endStream: isHead });
    if (!isHead) this.http2Stream.end(body);
    this.#discardRest();
  }

  accept(head: ResponseHead): Duplex {
    this.#status = 200;
    const headers = http2Headers(head.headers);
    // The key and accept fields belong to the handshake of HTTP/1.1.
    delete headers['sec-websocket-accept'];
    if (this.#isWritable) this.http2Stream.respond({ ':status': 200, ...headers });
    return this.http2Stream;
  }

  abort(): void {
    this.isBrokenOff = true;
    this.http2Stream.close(this.isHeadSent ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_CANCEL);
    setTimeout(() => this.destroy(), resetTimeoutMs).unref();
  }

  destroy(): void {
    this.isBrokenOff = true;
    this.http2Stream.destroy();
  }

  get #isWritable(): boolean {
    return !this.http2Stream.destroyed && !this.http2Stream.closed;
  }

  #respond(endStream: boolean): void {
    const head = this.#pendingHead;
    this.#pendingHead = null;
    if (!head || !this.#isWritable || this.http2Stream.headersSent) return;
    const hasTrailers = !endStream && head.bodyLength === null;
    const headers = http2Headers(head.headers);
    if (head.status === resetContent) delete headers['content-length'];
    this.http2Stream.respond({ ':status': head.status, ...headers }, { endStream, waitForTrailers: hasTrailers });
    if (!hasTrailers) return;
    const sendTrailers = () => this.http2Stream.sendTrailers(http2Headers(this.#responseTrailers));
    this.http2Stream.once('wantTrailers', this.faults.wrap(sendTrailers));
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    // If both sides of a stream are done, Node reports its close before `finish`.
    const completed = this.http2Stream.writableEnded && this.http2Stream.rstCode === NGHTTP2_NO_ERROR;
    this.faults.run(() => this.onClosed(completed));
  }

  /** A client that is still sending gets RST_STREAM with NO_ERROR after the response. */
  #discardRest(): void {
    if (this.isRequestComplete) return;
    this.http2Stream.removeAllListeners('data');
    this.http2Stream.resume();
    this.http2Stream.once('finish', () => this.http2Stream.close(NGHTTP2_NO_ERROR));
  }
}

/** Counts the bytes that Node pushes into a stream. A listener of `data` would start to read the stream. */
function countBody(stream: http2.ServerHttp2Stream, useful: UsefulBytes): void {
  const push = stream.push.bind(stream);
  stream.push = (piece: Buffer | null, encoding?: BufferEncoding) => {
    if (piece) useful.addBody(piece.length);
    return push(piece, encoding);
  };
}

function withoutPseudo(raw: string[]): string[] {
  return raw.flatMap((name, i) => (i % 2 === 0 && !name.startsWith(':') ? [name, raw[i + 1]!] : []));
}
