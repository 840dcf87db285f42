import rateLimit from '@fastify/rate-limit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AppError } from '../../domain/errors.ts';

/** Counts a request and tells the caller where they stand. @throws {AppError} `too_many_requests` */
export type RateLimiter = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

const windowMs = 60_000;

/**
 * Limits a minute: one for each API key, and one for each address that brings no valid key. Counted in this process
 * alone, so behind n replicas a caller may reach n times as many.
 */
export const rateLimits = fp<{ perKey: number; perAddress: number }>(
  async (app, { perKey, perAddress }) => {
    await app.register(rateLimit, { global: false });
    const limiter = (max: number, keyGenerator?: (request: FastifyRequest) => string): RateLimiter => {
      if (max === 0) return async () => {};
      const count = app.createRateLimit({ max, timeWindow: windowMs, ...(keyGenerator ? { keyGenerator } : {}) });
      return async (request, reply) => {
        const stand = await count(request);
        if (stand.isAllowed) return;
        reply.headers({
          'ratelimit-limit': stand.max,
          'ratelimit-remaining': stand.remaining,
          'ratelimit-reset': stand.ttlInSeconds,
        });
        if (!stand.isExceeded) return;
        reply.header('retry-after', stand.ttlInSeconds);
        throw new AppError('too_many_requests', `Too many requests; try again in ${stand.ttlInSeconds} s`);
      };
    };
    app.decorate('rateLimits', {
      perKey: limiter(perKey, (request) => request.identity!.keyId ?? request.identity!.userId),
      perAddress: limiter(perAddress),
    });
  },
  { name: 'rate-limits' },
);
