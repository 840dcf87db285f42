import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { isDatabaseOutOfReach } from '../../db/out-of-reach.ts';
import { AppError, type ErrorCode } from '../../domain/errors.ts';

/** Every failure leaves in one shape, and only its public text and code leave (section 7). */
export const errors = fp(
  async (app) => {
    const routes: { methods: string[]; pattern: RegExp }[] = [];
    app.addHook('onRoute', (route) => {
      routes.push({ methods: [route.method].flat(), pattern: patternOf(route.url) });
    });

    app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
    app.setNotFoundHandler((request, reply) => {
      const path = request.url.split('?', 1)[0]!;
      const allowed = new Set(routes.flatMap((route) => (route.pattern.test(path) ? route.methods : [])));
      if (allowed.size === 0) {
        return sendError(new AppError('route_not_found', 'There is no such route'), request, reply);
      }
      reply.header('allow', [...allowed].sort().join(', '));
      return sendError(new AppError('method_not_allowed', `${request.method} is not allowed here`), request, reply);
    });
  },
  { name: 'errors' },
);

/** For failures before routing, such as a malformed address, which no hook sees. */
export function onFrameworkError(
  this: FastifyInstance,
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  reply.header('x-request-id', request.id);
  sendError(error, request, reply);
}

/** The body of a failure. */
export function errorBody(error: AppError, requestId: string) {
  return {
    success: false as const,
    error: error.message,
    code: error.code,
    request_id: requestId,
    timestamp: new Date(),
    ...(error.details ? { details: error.details } : {}),
  };
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const told = toAppError(error);
  if (told.status >= 500) {
    request.log.error({ err: told.cause ?? told, code: told.code }, 'request failed');
  } else {
    // What is told of a malformed request may repeat names out of it, which are the caller's.
    const reason = told.code === 'validation_failed' ? undefined : told.message;
    request.log.debug({ code: told.code, reason }, 'request refused');
  }
  // As text: a code that a route forgot to document must still reach the caller.
  return reply
    .code(told.status)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(told, request.id)));
}

const frameworkErrors: Record<string, { code: ErrorCode; message: string }> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'payload_too_large', message: 'The body is larger than 1 MiB' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'unsupported_media_type', message: 'Send the body as application/json' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'invalid_json',
    message: 'The body does not have the length its header says',
  },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'not_found', message: 'Object not found' },
  FST_ERR_BAD_URL: { code: 'validation_failed', message: 'The address is malformed' },
};

function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  const known = frameworkErrors[(error as { code?: string } | null)?.code ?? ''];
  if (known) return new AppError(known.code, known.message);
  if (isDatabaseOutOfReach(error)) {
    return new AppError('temporarily_unavailable', 'The service is not available now; try again later', {
      cause: error,
    });
  }
  return new AppError('internal_error', 'Something went wrong on our side', { cause: error });
}

/** A route's address as an expression over concrete ones. */
function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part.startsWith(':')) return '[^/]+';
    return part.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace('*', '.*');
  });
  return new RegExp(`^${parts.join('/')}/?$`);
}
