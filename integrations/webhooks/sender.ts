import { Agent, errors } from 'undici';
import { type AttemptOutcome, keptReplyBytes } from '../../domain/webhooks/delivery.ts';
import { readRetryAfter } from '../../domain/webhooks/schedule.ts';
import { AddressRefusedError, CheckedConnector, type Egress, NameNotResolvedError } from './checked-connector.ts';

/**
 * The maximum number of bytes of a reply's body. After this many, the connection, or with HTTP/2 the stream, is closed.
 */
const maxReplyBytes = 65_536;
const maxHeaderBytes = 16_384;
/** The maximum number of 1xx replies before the final one. */
const maxInterimReplies = 20;
const idleConnectionMs = 10_000;

export interface WebhookRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
  timeoutSeconds: number;
}

/**
 * Sends requests to endpoints, which are untrusted: the time limit covers the whole exchange, bytes are bounded,
 * redirects are not followed, and the address is checked at connect.
 */
export class WebhookSender {
  readonly #agent: Agent;

  constructor(egress: Egress) {
    this.#agent = new Agent({
      connect: new CheckedConnector(egress).connect,
      allowH2: true,
      pipelining: 1,
      keepAliveTimeout: idleConnectionMs,
      keepAliveMaxTimeout: idleConnectionMs,
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Never throws. The outcome contains the error. */
  async send(request: WebhookRequest): Promise<AttemptOutcome> {
    const startedAt = new Date();
    const startedMs = performance.now();
    const exchange: Exchange = { httpStatus: null, reply: null, retryAfterMs: null };
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(new TimeoutError()), request.timeoutSeconds * 1000);
    let error: string | null;
    try {
      await this.#exchange(request, exchange, giveUp);
      error = findProblem(exchange.httpStatus!);
    } catch (caught) {
      error = describeError(giveUp.signal.aborted ? giveUp.signal.reason : caught, request.timeoutSeconds);
    } finally {
      clearTimeout(timer);
    }
    const durationMs = Math.round(performance.now() - startedMs);
    return { startedAt: startedAt.toISOString(), durationMs, error, ...exchange };
  }

  async #exchange(request: WebhookRequest, exchange: Exchange, giveUp: AbortController): Promise<void> {
    const url = new URL(request.url);
    let interim = 0;
    const { statusCode, headers, body } = await this.#agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'sandbox-platform-webhooks', ...request.headers },
      body: request.body,
      signal: giveUp.signal,
      onInfo: () => {
        interim += 1;
        if (interim > maxInterimReplies) giveUp.abort(new Error('too many interim replies'));
      },
    });
    // Leaving the loop destroys the stream, and the loop reports the error.
    body.on('error', () => {});
    exchange.httpStatus = statusCode;
    exchange.reply = '';
    const retryAfter = headers['retry-after'];
    exchange.retryAfterMs = readRetryAfter(typeof retryAfter === 'string' ? retryAfter : undefined, Date.now());
    const kept: Buffer[] = [];
    let bytes = 0;
    let keptBytes = 0;
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        const part = chunk.subarray(0, keptReplyBytes - keptBytes);
        keptBytes += part.length;
        // A copy, because a slice would keep the whole chunk in memory.
        if (part.length > 0) kept.push(Buffer.from(part));
        if (bytes > maxReplyBytes) break;
      }
    } finally {
      // Postgres cannot store NUL in text.
      exchange.reply = Buffer.concat(kept).toString('utf8').replaceAll('\0', '\ufffd');
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

type Exchange = Pick<AttemptOutcome, 'httpStatus' | 'reply' | 'retryAfterMs'>;

class TimeoutError extends Error {}

function findProblem(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400) return `The endpoint answered ${status}; redirects are not followed`;
  if (status === 410) return 'The endpoint answered 410: it is gone';
  return `The endpoint answered ${status}`;
}

/** The public text of an error. It contains no text of the receiver. */
function describeError(error: unknown, timeoutSeconds: number): string {
  if (error instanceof TimeoutError || error instanceof errors.ConnectTimeoutError) {
    return `The endpoint did not answer within ${timeoutSeconds} seconds`;
  }
  if (error instanceof AddressRefusedError) return "The endpoint's address is not allowed";
  if (error instanceof NameNotResolvedError) return "The endpoint's name could not be resolved";
  if (error instanceof errors.HeadersOverflowError) return "The headers of the endpoint's reply are too large";
  const { code = '' } = error as { code?: string };
  if (/^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/.test(code)) {
    return `The endpoint's TLS is not accepted (${code.slice(0, 60)})`;
  }
  if (['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code)) return 'The endpoint closed the connection';
  if (code.startsWith('HPE_') || error instanceof errors.HTTPParserError) return 'The endpoint did not answer in HTTP';
  if (['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT', 'EADDRNOTAVAIL'].includes(code)) {
    return 'The endpoint could not be reached';
  }
  return 'The exchange with the endpoint failed';
}
