import http2 from 'node:http2';
import { GatewayError } from '../error-reply.ts';
import { badResponse } from '../fault-boundary.ts';
import { FieldsTooLarge, forwardableTrailers, http2Headers, withoutForeignCookies } from '../header-fields.ts';
import { unreadBytes, unsentBytes, type WaitingExchange } from '../waiting-bytes.ts';
import { type ForwardingContext, tooMuchWaits } from './http-forwarding.ts';
import { SandboxUnreachable } from './opening.ts';
import { gatewayHeaders } from './request-head.ts';

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_FLAG_END_STREAM } =
  http2.constants;

/** Replies without a body (RFC 9110 §6.4.1). Node itself ends their streams. */
const bodiless = new Set([204, 205, 304]);
/** The maximum number of 1xx replies of one call. They are not forwarded, and more are a flood. */
const maxInformational = 100;
/** How long a sandbox may delay a call by allowing no streams. */
const noStreamsTimeoutMs = 4000;

/** A gRPC call must be HTTP/2 from end to end, because its status is in the trailers. */
export function isGrpc(contentType: string | null): boolean {
  return contentType !== null && /^application\/grpc($|[+;])/i.test(contentType);
}

/** Forwards one gRPC call from a stream of the client's connection to a stream of the sandbox's connection. */
export class GrpcForwarding implements WaitingExchange {
  readonly #context: ForwardingContext;
  #upstream: http2.ClientHttp2Stream | null = null;
  #stopWatching: () => void = () => undefined;

  constructor(context: ForwardingContext) {
    this.#context = context;
  }

  /** @throws {SandboxUnreachable}; {GatewayError} when no HTTP/2 server is there; later errors are answered here */
  async start(): Promise<void> {
    const { exchange, pool, route, port, request } = this.#context;
    const session = pool.grpcSession(route, port);
    try {
      await session.ready;
    } catch (error) {
      if (error instanceof SandboxUnreachable) throw error;
      throw new GatewayError(502, 'sandbox_bad_response', 'The server in the sandbox does not speak HTTP/2');
    }
    if (exchange.isClosed) return;
    const headers = http2Headers([...request.fields, ...gatewayHeaders(exchange, request)]);
    headers[':method'] = exchange.method;
    headers[':path'] = request.target;
    headers[':scheme'] = 'http';
    headers[':authority'] = request.host;
    headers.te = 'trailers';
    let upstream: http2.ClientHttp2Stream;
    try {
      upstream = session.request(headers, !exchange.hasBody);
    } catch (error) {
      throw new SandboxUnreachable('the connection takes no more calls', { cause: error });
    }
    this.#carry(exchange.http2Stream!, upstream, () => session.allowsStreams);
  }

  get clientKey(): string {
    return this.#context.clientKey;
  }

  waitingBytes(): number {
    const client = this.#context.exchange.http2Stream!;
    const upstream = this.#upstream!;
    return unreadBytes(client) + unreadBytes(upstream) + unsentBytes(client) + unsentBytes(upstream);
  }

  giveUp(): void {
    const { exchange } = this.#context;
    exchange.faults.run(() => {
      if (exchange.isClosed) return;
      if (exchange.canRefuse) exchange.refuse(tooMuchWaits());
      else exchange.abort();
    });
    this.#upstream?.close(NGHTTP2_CANCEL);
  }

  clientClosed(completed: boolean): void {
    this.#stopWatching();
    if (!completed) this.#upstream?.close(NGHTTP2_CANCEL);
  }

  #carry(client: http2.ServerHttp2Stream, upstream: http2.ClientHttp2Stream, allowsStreams: () => boolean): void {
    const { exchange } = this.#context;
    this.#upstream = upstream;
    this.#stopWatching = this.#context.waiting.watch(this);
    let trailers: string[] | null = null;
    let informational = 0;
    const onInformational = () => {
      if (++informational > maxInformational) this.#breakOff('too many 1xx replies');
    };
    const onResponse = (_headers: unknown, flags: number, ...rest: unknown[]) => {
      if (client.closed || client.destroyed || client.headersSent) return;
      const head = this.#readHead((rest as [string[]])[0]);
      if (!head) return;
      const isLast = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
      if (isLast || bodiless.has(head.status)) {
        client.respond({ ':status': head.status, ...head.headers }, { endStream: true });
        if (isLast) upstream.resume();
        else upstream.close(NGHTTP2_CANCEL);
        return;
      }
      client.respond({ ':status': head.status, ...head.headers }, { waitForTrailers: true });
      const sendTrailers = () => client.sendTrailers(http2Headers(trailers ?? []));
      client.once('wantTrailers', exchange.faults.wrap(sendTrailers));
      upstream.pipe(client);
    };
    const onTrailers = (_headers: unknown, _flags: number, ...rest: unknown[]) => {
      trailers = forwardableTrailers((rest as [string[]])[0]);
    };
    const onAborted = () => {
      // The trailers with the status make the reply complete. Without them its end could be mistaken for a proper one.
      if (trailers) return;
      upstream.unpipe(client);
      if (client.headersSent) client.close(upstream.rstCode || NGHTTP2_INTERNAL_ERROR);
    };
    const onClose = () => {
      if (client.closed || client.destroyed) return;
      // The sandbox's stream was closed without its end, regardless of its trailers.
      if (client.headersSent && !client.writableEnded) client.close(upstream.rstCode || NGHTTP2_INTERNAL_ERROR);
      else if (client.headersSent) this.#stopSending(client);
      // The server did not begin the call, so the client may safely retry.
      else if (upstream.rstCode === NGHTTP2_REFUSED_STREAM) client.close(NGHTTP2_REFUSED_STREAM);
      else exchange.refuse(this.#context.refusal(new Error('closed without a reply')));
    };
    const { faults } = exchange;
    upstream.on('error', () => undefined);
    upstream.on('headers', faults.wrap(onInformational));
    upstream.on('response', faults.wrap(onResponse));
    upstream.on('trailers', faults.wrap(onTrailers));
    upstream.on('aborted', faults.wrap(onAborted));
    upstream.on('close', faults.wrap(onClose));
    if (upstream.pending) {
      const check = () => {
        if (upstream.pending && !allowsStreams()) this.#breakOff('allows no streams');
      };
      const timer = setTimeout(faults.wrap(check), noStreamsTimeoutMs).unref();
      upstream.once('close', () => clearTimeout(timer));
    }
    if (exchange.hasBody) client.pipe(upstream);
  }

  /** Status and fields for the client. Null when they cannot be forwarded; then the call was ended. */
  #readHead(raw: string[]): { status: number; headers: http2.OutgoingHttpHeaders } | null {
    const status = Number(raw[raw.indexOf(':status') + 1]);
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      this.#breakOff('status');
      return null;
    }
    try {
      const headers = http2Headers(withoutForeignCookies(raw, this.#context.request.host));
      if (status === 205) delete headers['content-length'];
      headers['x-request-id'] ??= this.#context.exchange.requestId;
      return { status, headers };
    } catch (error) {
      if (!(error instanceof FieldsTooLarge)) throw error;
      this.#breakOff(error.message);
      return null;
    }
  }

  /** Ends a call whose reply cannot be forwarded. */
  #breakOff(reason: string): void {
    const { exchange, onBadReply } = this.#context;
    onBadReply(reason);
    if (exchange.canRefuse) exchange.refuse(badResponse());
    else exchange.abort();
    this.#upstream?.close(NGHTTP2_CANCEL);
  }

  /** The call has ended. A client that is still sending gets a reset after the complete reply. */
  #stopSending(client: http2.ServerHttp2Stream): void {
    if (this.#context.exchange.isRequestComplete) return;
    client.unpipe();
    client.resume();
    const stop = this.#context.exchange.faults.wrap(() => client.close(NGHTTP2_NO_ERROR));
    if (client.writableFinished) stop();
    else client.once('finish', stop);
  }
}
