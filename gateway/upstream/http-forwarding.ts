import { GatewayError } from '../error-reply.ts';
import type { Exchange } from '../exchange.ts';
import { badResponse } from '../fault-boundary.ts';
import { FieldsTooLarge, forwardableTrailers, withoutForeignCookies } from '../header-fields.ts';
import type { SandboxRoute } from '../routes.ts';
import type { WaitingBytes, WaitingExchange } from '../waiting-bytes.ts';
import { type ConnectionUser, type Http1Connection, UserFault } from './http1-connection.ts';
import { PortClosed, SandboxUnreachable } from './opening.ts';
import type { UpstreamPool } from './pool.ts';
import { chooseFraming, requestHead, type UpstreamRequest } from './request-head.ts';
import { MalformedResponse, type ResponseHead } from './response-parser.ts';

const repeatableMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);
/** After this time the body is requested from the client, because a server that ignores `Expect` waits for it. */
const continueTimeoutMs = 1000;
/** Bytes of all 1xx replies of one exchange that are kept for a client that does not read. */
const maxInformationalBytes = 32 * 1024;
/** The cost of a 1xx reply and of each of its fields, in addition to their text. */
const informationalOverheadBytes = 128;
const fieldOverheadBytes = 32;

/** Gives connections to one server. */
export interface Connections {
  /**
   * `replayable`: may be an idle one. `once`: may be an idle one only if the server certainly still waits for a request.
   * `fresh`: a new one.
   * @throws {SandboxUnreachable}
   */
  acquire(need: 'replayable' | 'once' | 'fresh'): Promise<Http1Connection>;
  /** Takes back a connection. Its response was sent completely. */
  release(connection: Http1Connection): void;
}

export interface HttpContext {
  exchange: Exchange;
  request: UpstreamRequest;
  connections: Connections;
  /** The reply to the client if the server gave none. */
  refusal: (error: Error) => GatewayError;
  /** The key under which the client's requests are counted. */
  clientKey: string;
  waiting: WaitingBytes;
  /** How long a client may read nothing while bytes wait for it. */
  stalledClientTimeoutMs: number;
  /** Called when a reply of the sandbox was replaced by 502 or broken off. */
  onBadReply: (reason: string) => void;
  /** Changes the head of the sandbox's reply. Calls of web pages get no 1xx replies. Null: the head is unchanged. */
  page: { replyHead: (head: ResponseHead) => ResponseHead; isPage: boolean } | null;
}

/** The forwarding of a request to a sandbox. */
export interface ForwardingContext extends HttpContext {
  route: SandboxRoute;
  port: number;
  pool: UpstreamPool;
}

/** Forwards one request to a server and its response back. It buffers no more than the sockets do. */
export class HttpForwarding implements ConnectionUser, WaitingExchange {
  protected readonly context: HttpContext;
  protected readonly exchange: Exchange;
  protected connection: Http1Connection | null = null;
  readonly #chunked: boolean;
  #requestSent = false;
  #isPumping = false;
  #responseDone = false;
  #headWaits = false;
  #informationalBytes = 0;
  #continueTimer: NodeJS.Timeout | null = null;
  #stallTimer: NodeJS.Timeout | null = null;
  /** The number of pieces of the response that were passed to the client's side and are not sent yet. */
  #unflushed = 0;
  readonly #flushed: () => void;
  #stopWatching: () => void = () => undefined;

  constructor(context: HttpContext) {
    this.context = context;
    this.exchange = context.exchange;
    this.#chunked = chooseFraming(context.exchange) === 'chunked';
    this.#flushed = this.exchange.faults.wrap(() => {
      // Earlier pieces were sent, but the buffer of the last piece is still in use.
      if (--this.#unflushed > 0) return;
      this.clientCaughtUp();
      if (this.#responseDone) this.#settle();
    });
  }

  /** @throws {SandboxUnreachable} when no connection can be made; later errors are answered here */
  async start(): Promise<void> {
    await this.connect(this.#isRepeatable ? 'replayable' : 'once');
  }

  /** The client has disconnected or has a response: this one, or a refusal of its malformed request. */
  clientClosed(completed: boolean): void {
    if (this.#continueTimer) clearTimeout(this.#continueTimer);
    if (this.#stallTimer) clearTimeout(this.#stallTimer);
    this.#stopWatching();
    if (completed && this.#responseDone) return;
    this.connection?.destroy();
    this.connection = null;
  }

  get clientKey(): string {
    return this.context.clientKey;
  }

  waitingBytes(): number {
    return this.exchange.unreadBytes + (this.connection?.unsentBytes ?? 0);
  }

  giveUp(): void {
    const { exchange } = this;
    exchange.faults.run(() => {
      if (exchange.isClosed) return;
      if (exchange.canRefuse) exchange.refuse(tooMuchWaits());
      else exchange.abort();
    });
    this.connection?.destroy();
    this.connection = null;
  }

  onInformational(head: ResponseHead): void {
    this.#informationalBytes += informationalOverheadBytes;
    for (const text of head.headers) this.#informationalBytes += text.length + fieldOverheadBytes / 2;
    if (this.#informationalBytes > maxInformationalBytes) throw new MalformedResponse('too many 1xx replies');
    if (head.status === 100) {
      this.#continue();
      return;
    }
    // With early hints, the browser would load resources that the sandbox chooses.
    if (this.context.page?.isPage) return;
    this.#unflushed++;
    if (!this.exchange.sendInformational(head, this.#flushed)) this.waitForClient();
  }

  onHead(head: ResponseHead): void {
    if (head.status === 101) throw new MalformedResponse('switches to a protocol that was not requested');
    this.#headWaits = true;
    const { page } = this.context;
    this.exchange.sendHead(this.headForClient(page ? page.replyHead(head) : head));
  }

  onBody(bytes: Buffer, last: boolean, trailers: string[]): void {
    this.#headWaits = false;
    this.#unflushed++;
    if (!last) {
      if (!this.exchange.sendBody(bytes, this.#flushed)) this.waitForClient();
      return;
    }
    const hasLeft = this.exchange.finish(bytes, forwardableTrailers(trailers), this.#flushed);
    // Set only after `finish`: if `finish` threw, the response would not be done and the exchange would have to end in
    // another way.
    this.#responseDone = true;
    if (hasLeft || this.#unflushed === 0) this.#settle();
    else this.waitForClient();
  }

  onTunnelBytes(_bytes: Buffer): void {
    throw new MalformedResponse('bytes of another protocol');
  }

  onReadDone(): void {
    if (!this.#headWaits) return;
    this.#headWaits = false;
    this.exchange.flushHead();
  }

  onWritable(): void {
    if (this.#isPumping) this.exchange.body.resume();
  }

  onBroken(error: Error): void {
    this.exchange.faults.run(() => this.broken(error));
  }

  protected broken(error: Error): void {
    const { connection } = this;
    this.connection = null;
    if (this.#responseDone || this.exchange.isClosed) return;
    if (error instanceof MalformedResponse) this.context.onBadReply(error.message);
    if (error instanceof UserFault) {
      this.#isPumping = false;
      if (error.cause instanceof FieldsTooLarge && this.exchange.canRefuse) {
        this.context.onBadReply(error.cause.message);
        this.exchange.refuse(badResponse());
      } else this.exchange.faults.fail(error.cause);
    } else if (this.exchange.isHeadSent) {
      this.exchange.abort();
    } else if (connection?.wasUsed && !connection.responseStarted && this.#isRepeatable) {
      this.connect('fresh').catch(this.exchange.faults.wrap((failure: Error) => this.#refuse(failure)));
    } else {
      this.#refuse(error);
    }
  }

  /** Stops reading until the last read was sent, because its buffer is reused. */
  protected waitForClient(): void {
    this.connection?.pause();
    if (this.#stallTimer) return;
    const giveUp = this.exchange.faults.wrap(() => this.exchange.abort());
    this.#stallTimer = setTimeout(giveUp, this.context.stalledClientTimeoutMs).unref();
  }

  protected clientCaughtUp(): void {
    if (this.#stallTimer) clearTimeout(this.#stallTimer);
    this.#stallTimer = null;
    this.connection?.resume();
  }

  /** From now on, counts the bytes from the client that the sandbox does not read. */
  protected watchWaiting(): void {
    this.#stopWatching();
    this.#stopWatching = this.context.waiting.watch(this);
  }

  protected async connect(need: 'replayable' | 'once' | 'fresh'): Promise<void> {
    const { connections } = this.context;
    const connection = await connections.acquire(need);
    if (this.exchange.isClosed) {
      connections.release(connection);
      return;
    }
    this.connection = connection;
    this.send(connection);
  }

  protected send(connection: Http1Connection): void {
    const { exchange } = this;
    const expects = exchange.hasBody && exchange.headers.expect !== null && exchange.version !== '1.0';
    const extra = expects ? ['Expect', '100-continue'] : [];
    const bodyFollows = exchange.hasBody && !expects;
    connection.send(requestHead(exchange, this.context.request, extra), exchange.method, this, { bodyFollows });
    if (!exchange.hasBody) this.#requestSent = true;
    else if (expects) {
      const proceed = exchange.faults.wrap(() => this.#continue());
      this.#continueTimer = setTimeout(proceed, continueTimeoutMs);
    } else this.#pumpBody();
  }

  /** The head of a reply for the client. */
  protected headForClient(head: ResponseHead): ResponseHead {
    const headers = withoutForeignCookies(head.headers, this.context.request.host);
    head.headers = headers;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      if (name.length === 12 && name.toLowerCase() === 'x-request-id') return head;
    }
    headers.push('X-Request-Id', this.exchange.requestId);
    return head;
  }

  get #isRepeatable(): boolean {
    return !this.exchange.hasBody && repeatableMethods.has(this.exchange.method);
  }

  #continue(): void {
    if (this.#continueTimer) clearTimeout(this.#continueTimer);
    if (this.#isPumping || this.#requestSent || this.exchange.isHeadSent) return;
    this.exchange.sendContinue();
    this.#pumpBody();
  }

  #pumpBody(): void {
    const { body, faults } = this.exchange;
    this.#isPumping = true;
    this.watchWaiting();
    const pass = (chunk: Buffer) => {
      const isWritable = this.#chunked ? this.connection?.writeChunk(chunk) : this.connection?.write(chunk);
      if (isWritable === false) body.pause();
    };
    const end = () => {
      this.#isPumping = false;
      if (this.#chunked) this.connection?.endChunks(this.exchange.trailers);
      this.#requestSent = true;
    };
    body.on('data', faults.wrap(pass));
    body.once('end', faults.wrap(end));
  }

  /**
   * The response was sent completely. Its connection may carry the next request, if this request was sent completely.
   */
  #settle(): void {
    const { connection } = this;
    this.connection = null;
    this.#isPumping = false;
    if (!connection) return;
    if (this.#requestSent) this.context.connections.release(connection);
    else connection.destroy();
  }

  #refuse(error: Error): void {
    this.#isPumping = false;
    if (this.exchange.isClosed || this.exchange.isHeadSent) return;
    this.exchange.refuse(this.context.refusal(error));
  }
}

/** The data for slow readers exceeds the memory limit. */
export function tooMuchWaits(): GatewayError {
  return new GatewayError(503, 'sandbox_busy', 'The sandbox does not read what is sent to it', {
    retryAfterSeconds: 1,
  });
}

/** The reply to a client if the sandbox's server gave none. */
export function refusalFor(error: Error, port: number): GatewayError {
  if (error instanceof MalformedResponse) return badResponse();
  if (error instanceof PortClosed) {
    return new GatewayError(502, 'sandbox_port_closed', `No server in the sandbox listens on port ${port}`);
  }
  if (error instanceof SandboxUnreachable) {
    return new GatewayError(502, 'sandbox_unreachable', 'The sandbox does not answer');
  }
  return new GatewayError(502, 'sandbox_no_reply', 'The server in the sandbox closed the connection without a reply');
}
