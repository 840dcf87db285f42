import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify';
import fp from 'fastify-plugin';
import { constraintError } from '../../db/core/constraint-errors.ts';
import { isDatabaseOutOfReach } from '../../db/core/out-of-reach.ts';
import { emailChangeSeconds } from '../../domain/accounts/email-change.ts';
import { passwordResetSeconds } from '../../domain/accounts/password-reset.ts';
import { AppError, type ErrorCode, type ErrorDetail, type TooManyCode } from '../../domain/errors.ts';
import { unparsedRequestLine } from '../../platform/config/unknown-methods.ts';
import { isE2bAddress } from '../e2b/address.ts';
import { e2bStatus } from '../e2b/errors.ts';
import { closeWhenUnread } from './unread-bodies.ts';
import { workflowError } from './workflow-errors.ts';

/** Gives every failure the same form, with only its public text and code. */
export const errors = fp(
  async (app) => {
    const patterns: RoutePattern[] = [];
    app.decorate('routePatterns', patterns);
    app.addHook('onRoute', (route) => {
      patterns.push({
        methods: [route.method].flat(),
        pattern: createPattern(route.url),
        parameters: parametersIn(route.url),
      });
    });

    app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
    app.setNotFoundHandler((request, reply) => {
      const { error, allow } = noSuchRoute(app, request.method, request.url);
      if (allow) reply.header('allow', allow);
      return sendError(error, request, reply);
    });
  },
  { name: 'errors' },
);

export interface RoutePattern {
  methods: string[];
  pattern: RegExp;
  /** The number of variable parts in the address. */
  parameters: number;
}

/**
 * The error for an unknown address, or for a known address with another method. In the second case `allow` lists the
 * address's methods. As in the router, a literal address takes precedence over one with parameters.
 */
export function noSuchRoute(
  app: Pick<FastifyInstance, 'routePatterns'>,
  method: string,
  url: string,
): { error: AppError; allow?: string } {
  const path = url.split('?', 1)[0]!;
  const matching = app.routePatterns.filter((route) => route.pattern.test(path));
  if (matching.length === 0) return { error: new AppError('route_not_found', 'There is no such route') };
  const fewest = Math.min(...matching.map((route) => route.parameters));
  const methods = new Set(matching.flatMap((route) => (route.parameters === fewest ? route.methods : [])));
  return {
    error: new AppError('method_not_allowed', `${method} is not allowed on this route`),
    allow: [...methods].sort().join(', '),
  };
}

/** For failures before routing, such as a malformed address. No hook runs for them. */
export function onFrameworkError(
  this: FastifyInstance,
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  reply.header('x-request-id', request.id);
  closeWhenUnread(request, reply);
  sendError(error, request, reply);
}

/** The body of a failed reply. */
function errorBody(error: AppError, requestId: string) {
  return {
    success: false as const,
    error: boundedMessage(error.message),
    code: error.code,
    request_id: requestId,
    timestamp: new Date(),
    ...(error.data && { data: error.data }),
    ...(error.details ? { details: boundedDetails(error.details) } : {}),
  };
}

/** Default `Retry-After` of errors that do not set it. Every 429 has one. */
const usualRetrySeconds: Record<TooManyCode | 'no_capacity', number> & { [code in ErrorCode]?: number } = {
  // Another sandbox may end or pause, and free capacity, at any time.
  no_capacity: 30,
  concurrent_limit_reached: 30,
  too_many_requests: 1,
  event_stream_limit_reached: 30,
  start_queue_full: 5,
  too_many_sign_ins: 30,
  password_reset_pending: passwordResetSeconds,
  email_change_pending: emailChangeSeconds,
};

export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const failure = reportFailure(error, request, reply);
  const isOfE2b = isE2bAddress(request.url);
  const status = isOfE2b ? e2bStatus(failure) : failure.status;
  const body = isOfE2b ? { code: status, message: boundedMessage(failure.message) } : errorBody(failure, request.id);
  // Serialized without a schema, because a code that the route did not document must still reach the caller.
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/** Errors that are logged for operators. */
const faults: readonly ErrorCode[] = [
  'internal_error',
  'temporarily_unavailable',
  'workflow_failing',
  'payment_processor_unavailable',
];

/** The public part of an error. Logs the rest, and sets the headers of the error. */
export function reportFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): AppError {
  const failure = toAppError(error, request);
  // `no_capacity` is an expected answer, not a fault.
  if (faults.includes(failure.code)) {
    request.log.error({ err: failure.cause ?? failure, code: failure.code }, 'request failed');
  } else {
    // The text of a validation error contains field names from the caller, so it is not logged.
    const reason = failure.code === 'validation_failed' ? undefined : failure.message;
    request.log.debug({ code: failure.code, reason }, 'request refused');
  }
  const retryAfter = retryAfterSeconds(failure);
  // The rate limit has already set its own header.
  if (retryAfter !== undefined && !reply.hasHeader('retry-after')) reply.header('retry-after', retryAfter);
  return failure;
}

/** The value of the header `Retry-After`. Undefined: the error does not tell when a retry can succeed. */
export function retryAfterSeconds({ code, data, retryAfterSeconds }: AppError): number | undefined {
  const minutes = data?.time_remaining_minutes;
  return retryAfterSeconds ?? (minutes === undefined ? usualRetrySeconds[code] : minutes * 60);
}

const frameworkErrors = new Map<string, { code: ErrorCode; message: string }>(
  Object.entries({
    FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'unsupported_media_type', message: 'Send the body as application/json' },
    FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
      code: 'invalid_json',
      message: 'The length of the body differs from Content-Length',
    },
    FST_ERR_MAX_PARAM_LENGTH: { code: 'not_found', message: 'Object not found' },
    FST_ERR_BAD_URL: { code: 'validation_failed', message: 'The address is malformed' },
  }),
);

function toAppError(error: unknown, request: FastifyRequest): AppError {
  if (error instanceof AppError) return error;
  if ((error as { code?: string } | null)?.code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new AppError(
      'payload_too_large',
      `The body is larger than the ${request.routeOptions.bodyLimit} bytes that this route allows`,
    );
  }
  const mapped = constraintError(error) ?? workflowError(error);
  if (mapped) return mapped;
  const known = frameworkErrors.get((error as { code?: string } | null)?.code ?? '');
  if (known) return new AppError(known.code, known.message);
  if (isDatabaseOutOfReach(error)) {
    return new AppError('temporarily_unavailable', 'The service is not available now; try again later', {
      cause: error,
    });
  }
  return new AppError('internal_error', 'An internal error occurred', { cause: error });
}

/** A regular expression for concrete addresses of a route, with or without a trailing slash. */
function createPattern(url: string): RegExp {
  const parts = url
    .replace(/\/$/, '')
    .split('/')
    .map((part) => {
      if (part.startsWith(':')) return '[^/]+';
      return part.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace('*', '.*');
    });
  return new RegExp(`^${parts.join('/')}/?$`);
}

function parametersIn(url: string): number {
  return url.split('/').filter((part) => part.startsWith(':') || part.includes('*')).length;
}

/** The maximum number of wrong fields in a reply. */
export const maxDetails = 20;
const maxPathLength = 200;
const maxReasonLength = 300;
const maxMessageLength = 2000;

/** Limits the number and the length of details, because field names come from the caller. */
function boundedDetails(details: readonly ErrorDetail[]): ErrorDetail[] {
  return details
    .slice(0, maxDetails)
    .map(({ path, reason }) => ({ path: shortened(path, maxPathLength), reason: shortened(reason, maxReasonLength) }));
}

/**
 * The details as one sentence.
 * @param more.total the number of all details, including those that were left out
 * @param more.whole what a detail without a path is about
 */
export function detailsText(
  details: readonly ErrorDetail[],
  { total = details.length, whole = 'The request' }: { total?: number; whole?: string | undefined } = {},
): string {
  const bounded = boundedDetails(details);
  const texts = bounded.map(({ path, reason }) => `${path || whole} ${reason}`);
  if (total > bounded.length) texts.push(`and ${total - bounded.length} more`);
  return shortened(texts.join('; '), maxMessageLength);
}

/** Limits the length of a message that may repeat input of a caller or an agent. */
function boundedMessage(message: string): string {
  return shortened(message, maxMessageLength);
}

function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}

type Refusal = ReturnType<typeof noSuchRoute>;

/** Replies to requests that Node cannot parse in the same form as for other errors, then closes the connection. */
export const onMalformedRequest: NonNullable<FastifyServerOptions['clientErrorHandler']> = function (
  this: FastifyInstance,
  error,
  socket,
) {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) {
    const requestId = randomUUID();
    const refusal = unknownMethod(this, error) ?? {
      error: new AppError('validation_failed', 'The request is not valid HTTP, or its headers are too large'),
    };
    const body = JSON.stringify(errorBody(refusal.error, requestId));
    socket.write(
      `HTTP/1.1 ${statusLine[refusal.error.status]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `X-Request-Id: ${requestId}\r\n${refusal.allow ? `Allow: ${refusal.allow}\r\n` : ''}` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroy();
};

const statusLine: Record<number, string> = {
  400: '400 Bad Request',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
};

function unknownMethod(app: FastifyInstance, error: { code?: string; rawPacket?: unknown }): Refusal | null {
  const line = unparsedRequestLine(error);
  return line && noSuchRoute(app, line.method, line.target);
}
