import http2 from 'node:http2';
import { forwardableTrailers, http2Headers, withoutNames } from '../header-fields.ts';
import { type ForwardingContext, SandboxUnreachable, unreachable } from './http-forwarding.ts';
import { gatewayHeaders } from './request-head.ts';

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_FLAG_END_STREAM } =
  http2.constants;

const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);

/** A gRPC call lives in HTTP/2 from end to end: its status is in the trailers. */
export function isGrpc(contentType: string | null): boolean {
  return contentType !== null && /^application\/grpc($|[+;])/i.test(contentType);
}

/** Carries one gRPC call: a stream of the client's connection onto a stream of the sandbox's. */
export class GrpcForwarding {
  readonly #context: ForwardingContext;
  #upstream: http2.ClientHttp2Stream | null = null;

  constructor(context: ForwardingContext) {
    this.#context = context;
  }

  /** @throws {SandboxUnreachable} when nothing there speaks HTTP/2; whatever fails later is answered here. */
  async start(): Promise<void> {
    const { exchange, pool, route, port, request } = this.#context;
    const session = pool.grpcSession(route, port);
    try {
      await session.ready;
    } catch (error) {
      throw new SandboxUnreachable('nothing answers there', { cause: error });
    }
    if (exchange.isClosed) return;
    const headers = http2Headers([...exchange.headers.forward, ...gatewayHeaders(exchange, request)]);
    headers[':method'] = exchange.method;
    headers[':path'] = request.target;
    headers[':scheme'] = 'http';
    headers[':authority'] = request.host;
    headers.te = 'trailers';
    this.#carry(exchange.http2Stream!, session.request(headers, !exchange.hasBody));
  }

  clientClosed(completed: boolean): void {
    if (!completed) this.#upstream?.close(NGHTTP2_CANCEL);
  }

  #carry(client: http2.ServerHttp2Stream, upstream: http2.ClientHttp2Stream): void {
    const { exchange } = this.#context;
    this.#upstream = upstream;
    upstream.on('error', () => undefined);
    let trailers: string[] | null = null;
    upstream.on('response', (_headers, flags, ...rest) => {
      const [raw] = rest as unknown as [string[]];
      const isLast = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
      client.respond(responseHeaders(raw, exchange.requestId), { endStream: isLast, waitForTrailers: !isLast });
      if (isLast) {
        upstream.resume();
        return;
      }
      client.once('wantTrailers', () => client.sendTrailers(http2Headers(trailers ?? [])));
      upstream.pipe(client);
    });
    upstream.on('trailers', (_headers, _flags, ...rest) => {
      const [raw] = rest as unknown as [string[]];
      trailers = forwardableTrailers(raw);
    });
    upstream.on('aborted', () => {
      // With its status the answer is whole; without, it would look as if its end were meant.
      if (trailers) return;
      upstream.unpipe(client);
      if (client.headersSent) client.close(upstream.rstCode || NGHTTP2_INTERNAL_ERROR);
    });
    upstream.on('close', () => {
      if (client.closed || client.destroyed) return;
      if (client.headersSent) this.#stopSending(client);
      // Not begun over there, so the client may try again by itself.
      else if (upstream.rstCode === NGHTTP2_REFUSED_STREAM) client.close(NGHTTP2_REFUSED_STREAM);
      else exchange.refuse(unreachable());
    });
    if (exchange.hasBody) client.pipe(upstream);
  }

  /** The call is over: a client that still sends is told so once it has the whole answer. */
  #stopSending(client: http2.ServerHttp2Stream): void {
    if (this.#context.exchange.isRequestComplete) return;
    client.unpipe();
    client.resume();
    if (client.writableFinished) client.close(NGHTTP2_NO_ERROR);
    else client.once('finish', () => client.close(NGHTTP2_NO_ERROR));
  }
}

function responseHeaders(raw: string[], requestId: string): http2.OutgoingHttpHeaders {
  const statusAt = raw.indexOf(':status');
  const status = Number(raw[statusAt + 1]);
  const fields = withoutNames(raw, HOP_BY_HOP).flatMap((name, i, all) =>
    i % 2 === 0 && !name.startsWith(':') ? [name, all[i + 1]!] : [],
  );
  const headers = http2Headers(fields);
  headers['x-request-id'] ??= requestId;
  return { ':status': status, ...headers };
}
