import type { Duplex, Readable } from 'node:stream';
import type { GatewayError } from './error-reply.ts';
import type { FaultBoundary } from './fault-boundary.ts';
import type { RequestHeaders } from './request-headers.ts';
import type { ResponseHead } from './upstream/response-parser.ts';

/** The connection a request came by. */
export interface ClientConnection {
  /** The peer's address. */
  address: string;
  /** What its requests are counted under: see `clientKey`. */
  key: string;
  /** It came by TLS. */
  secure: boolean;
  /** The name the TLS client asked for. */
  serverName: string | null;
  /** Set when this client has more connections than it may. */
  isOneTooMany: boolean;
}

/**
 * One request and its response, whichever version of HTTP the client speaks. The response is written by `sendHead`,
 * then `sendBody` any number of times, then `finish`; or by `refuse`; or, of a WebSocket, by `accept`.
 */
export interface Exchange {
  readonly requestId: string;
  readonly client: ClientConnection;
  readonly version: '1.0' | '1.1' | '2';
  readonly method: string;
  /** As sent, or with the scheme and authority of an absolute form taken off. */
  readonly target: string;
  /** The authority of an absolute form or of HTTP/2. */
  readonly targetAuthority: string | null;
  readonly headers: RequestHeaders;
  readonly isWebSocket: boolean;
  /** A body follows. */
  readonly hasBody: boolean;
  readonly body: Readable;
  /** Memory of what has arrived of the body, or on a WebSocket, and has not been taken. */
  readonly unreadBytes: number;
  /** Trailer fields of the request, once its body has ended. */
  readonly trailers: string[];
  /** The whole request has arrived. */
  readonly isRequestComplete: boolean;
  readonly isHeadSent: boolean;
  /** `refuse` is still possible: nothing of the final response has been sent, and the client is there. */
  readonly canRefuse: boolean;
  /** Where every callback that serves this exchange runs. */
  readonly faults: FaultBoundary;
  /** The response is complete, or the client has left. */
  readonly isClosed: boolean;
  readonly responseStatus: number;
  /** Called once when `isClosed` turns true; `completed`: the whole response was sent. */
  onClosed: (completed: boolean) => void;

  /** Sends `100 Continue` to a client that waits for it with `Expect: 100-continue`. */
  sendContinue(): void;
  /** Passes a 1xx on where the client can take it. False: read no more until `flushed`, which is called in either case. */
  sendInformational(head: ResponseHead, flushed: () => void): boolean;
  sendHead(head: ResponseHead): void;
  /** Sends the head now, without waiting for the first bytes of the body. */
  flushHead(): void;
  /**
   * Sends bytes of the body. True: they have left and the buffer may be used again. False: not before `flushed` is
   * called, which happens in either case, unless the client leaves.
   */
  sendBody(bytes: Buffer, flushed: () => void): boolean;
  /** Ends the response. True and `flushed` as of `sendBody`. */
  finish(bytes: Buffer, trailers: string[], flushed: () => void): boolean;
  /** Answers with an error of the gateway. The head must not have been sent. */
  refuse(error: GatewayError): void;
  /** Makes the connection a WebSocket. */
  accept(head: ResponseHead): Duplex;
  /** Breaks the response off so that the client sees it is not whole. */
  abort(): void;
  /** Breaks off the response to the client at once, in any state of the response. */
  destroy(): void;
  /** The underlying HTTP/2 stream, for calls whose trailers and resets must pass as they are. */
  readonly http2Stream: import('node:http2').ServerHttp2Stream | null;
}

export type ExchangeListener = (exchange: Exchange) => void;
