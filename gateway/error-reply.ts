/** A refusal by the gateway itself. It reveals no internals of the platform. */
export class GatewayError extends Error {
  override name = 'GatewayError';
  readonly status: number;
  readonly code: string;
  readonly retryAfterSeconds: number | null;
  /** The connection is closed after the reply. */
  readonly closesConnection: boolean;

  constructor(
    status: number,
    code: string,
    message: string,
    options: { retryAfterSeconds?: number; closesConnection?: boolean } = {},
  ) {
    super(message);
    this.closesConnection = options.closesConnection ?? false;
    this.status = status;
    this.code = code;
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
  }

  /** The body of the reply: the platform's error format. */
  body(requestId: string): object {
    const { message, code } = this;
    return { success: false, error: message, code, request_id: requestId, timestamp: new Date().toISOString() };
  }
}

/** The refusal as a reply: a flat header list and a JSON body. */
export function errorReply(error: GatewayError, requestId: string): { headers: string[]; body: string } {
  const body = JSON.stringify(error.body(requestId));
  const headers = ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))];
  headers.push('Cache-Control', 'no-store', 'X-Request-Id', requestId);
  if (error.retryAfterSeconds !== null) headers.push('Retry-After', String(error.retryAfterSeconds));
  return { headers, body };
}
