import type { Duplex, Readable } from 'node:stream';
import type { GatewayError } from './error-reply.ts';
import type { FaultBoundary } from './fault-boundary.ts';
import type { RequestHeaders } from './request-headers.ts';
import type { ResponseHead } from './upstream/response-parser.ts';

/** The client connection of a request. */
export interface ClientConnection {
  /** The peer's address. */
  address: string;
  /** The key for the count of its requests: see `clientKey`. */
  key: string;
  /** The connection uses TLS. */
  secure: boolean;
  /** The server name (SNI) that the TLS client sent. */
  serverName: string | null;
  /** The client has more connections than its limit. */
  isOneTooMany: boolean;
}

/**
 * One request and its response, for every version of HTTP. The response is written in one of three ways: by `sendHead`,
 * then `sendBody` any number of times, then `finish`; or by `refuse`; or, for a WebSocket, by `accept`.
 */
export interface Exchange {
  readonly requestId: string;
  readonly client: ClientConnection;
  readonly version: '1.0' | '1.1' | '2';
  readonly method: string;
  /** The request target. For a target in absolute form, only its path. */
  readonly target: string;
  /** The authority of an absolute form or of HTTP/2. */
  readonly targetAuthority: string | null;
  readonly headers: RequestHeaders;
  readonly isWebSocket: boolean;
  /** The request has a body. */
  readonly hasBody: boolean;
  readonly body: Readable;
  /** Bytes of the body, or of a WebSocket, that have arrived and are unread. */
  readonly unreadBytes: number;
  /** Trailer fields of the request, after the end of its body. */
  readonly trailers: string[];
  /** The whole request has arrived. */
  readonly isRequestComplete: boolean;
  readonly isHeadSent: boolean;
  /** `refuse` is still possible: the final response has not begun, and the client is connected. */
  readonly canRefuse: boolean;
  /** Every callback that serves this exchange runs in this boundary. */
  readonly faults: FaultBoundary;
  /** The response is complete, or the client has disconnected. */
  readonly isClosed: boolean;
  readonly responseStatus: number;
  /** Called once when `isClosed` becomes true. `completed`: the whole response was sent. */
  onClosed: (completed: boolean) => void;

  /** Sends `100 Continue` to a client that waits for it after `Expect: 100-continue`. */
  sendContinue(): void;
  /**
   * Forwards a 1xx reply if the client supports it. False: stop reading until `flushed` is called. `flushed` is called
   * in both cases.
   */
  sendInformational(head: ResponseHead, flushed: () => void): boolean;
  sendHead(head: ResponseHead): void;
  /** Sends the head now, before the first bytes of the body. */
  flushHead(): void;
  /**
   * Sends bytes of the body. True: the bytes were sent and the buffer may be reused. False: reuse the buffer only after
   * `flushed` was called. `flushed` is called in both cases unless the client disconnects.
   */
  sendBody(bytes: Buffer, flushed: () => void): boolean;
  /** Ends the response. Returns and calls `flushed` as `sendBody` does. */
  finish(bytes: Buffer, trailers: string[], flushed: () => void): boolean;
  /** Replies with an error of the gateway. The head must not have been sent. */
  refuse(error: GatewayError): void;
  /** Makes the connection a WebSocket. */
  accept(head: ResponseHead): Duplex;
  /** Breaks off the response so that the client sees that it is incomplete. */
  abort(): void;
  /** Closes the exchange towards the client at once, in any state of the response. */
  destroy(): void;
  /** The HTTP/2 stream, for calls with trailers and resets that must pass unchanged. */
  readonly http2Stream: import('node:http2').ServerHttp2Stream | null;
}

export type ExchangeListener = (exchange: Exchange) => void;
