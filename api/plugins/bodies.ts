import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AppError, type ErrorDetail, notFound } from '../../domain/errors.ts';
import { defaultJsonBounds, exceededBound } from '../../domain/json-bounds.ts';
import { onRequestEnd } from './draining.ts';
import { detailsText, maxDetails } from './errors.ts';

const maxQueryParameters = 100;
/** The maximum bytes of bodies in memory, from their first byte to the reply: of one caller, and of all callers. */
const maxCallerBytes = 16 * 1024 * 1024;
const maxBytes = 64 * 1024 * 1024;

/**
 * Accepts only JSON. A request may have the content type of JSON without a body. Runs after `access`, and its work is
 * proportional to the size of the body.
 */
export const bodies = fp(
  async (app) => {
    const parseJson = app.getDefaultJsonParser('error', 'error');
    const inProgress = new BodiesInProgress();
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
      const text = body as string;
      if (text.trim() === '') return done(null, undefined);
      const exceeded = exceededBound(text, request.routeOptions.config.jsonBounds ?? defaultJsonBounds);
      if (exceeded) return done(new AppError('validation_failed', `The body ${exceeded}`), undefined);
      parseJson(request, text, (error, value) => {
        if (error) done(new AppError('invalid_json', 'The body is not valid JSON', { cause: error }), undefined);
        else done(null, value);
      });
    });

    // Node would ask for the body at once. Here the API asks for it only when the caller is known and the body will be
    // read.
    app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response));
    app.addHook('preParsing', async (request, reply) => {
      const encoding = request.headers['content-encoding'];
      if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
        throw new AppError('unsupported_media_type', 'Send the body without Content-Encoding');
      }
      const limit = request.routeOptions.bodyLimit;
      const isChunked = request.headers['transfer-encoding'] !== undefined;
      const length = isChunked ? limit : Number(request.headers['content-length'] ?? 0);
      if (length === 0 || length > limit) return;
      if (!inProgress.tryAdd(request, length)) {
        reply.header('retry-after', 1);
        throw new AppError('too_many_requests', 'Too many large requests are being processed; try again in 1 s');
      }
      onRequestEnd(reply, () => inProgress.remove(request, length));
      if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue();
    });

    app.addHook('preValidation', async (request) => {
      requireShortQuery(request);
      if (unstorableText(request.params).length > 0) throw notFound('Object');
      const details = [...unstorableText(request.body), ...unstorableText(request.query)].slice(0, maxDetails);
      if (details.length === 0) return;
      throw new AppError(
        'validation_failed',
        `The request has text that is not valid Unicode: ${detailsText(details)}`,
        {
          details,
        },
      );
    });
  },
  { name: 'bodies', dependencies: ['access'] },
);

/** Adds up the bodies in memory, so that requests are refused before memory is exhausted. */
class BodiesInProgress {
  readonly #ofCallers = new Map<string, number>();
  #total = 0;

  tryAdd(request: FastifyRequest, length: number): boolean {
    const caller = callerKey(request);
    const ofCaller = (this.#ofCallers.get(caller) ?? 0) + length;
    if (ofCaller > maxCallerBytes || this.#total + length > maxBytes) return false;
    this.#ofCallers.set(caller, ofCaller);
    this.#total += length;
    return true;
  }

  remove(request: FastifyRequest, length: number): void {
    this.#total -= length;
    const caller = callerKey(request);
    const left = this.#ofCallers.get(caller)! - length;
    if (left > 0) this.#ofCallers.set(caller, left);
    else this.#ofCallers.delete(caller);
  }
}

/** Callers of public routes share one count, because their bodies are small. */
function callerKey({ identity }: FastifyRequest): string {
  return identity ? (identity.keyId ?? identity.userId) : 'public';
}

function requireShortQuery(request: FastifyRequest): void {
  const parameters = Object.values(request.query as Record<string, unknown>);
  const count = parameters.reduce<number>((sum, value) => sum + (Array.isArray(value) ? value.length : 1), 0);
  if (count <= maxQueryParameters) return;
  throw new AppError('validation_failed', `The query has more than ${maxQueryParameters} parameters`);
}

/**
 * The paths of texts that Postgres cannot store, because they contain NUL or unpaired surrogates. Stops after a few.
 */
function unstorableText(value: unknown): ErrorDetail[] {
  const found: ErrorDetail[] = [];
  const path: string[] = [];
  const check = (text: string) => {
    if (text.includes('\0') || !text.isWellFormed()) {
      found.push({ path: path.join('.'), reason: 'has a NUL character or half of a surrogate pair' });
    }
  };
  const visit = (item: unknown) => {
    if (found.length >= maxDetails) return;
    if (typeof item === 'string') return check(item);
    if (item === null || typeof item !== 'object') return;
    for (const [key, below] of Object.entries(item)) {
      check(key);
      path.push(key);
      visit(below);
      path.pop();
    }
  };
  visit(value);
  return found;
}
