import rateLimit, { normalizeIP } from '@fastify/rate-limit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AppError } from '../../domain/errors.ts';
import { publicRequestsPerMinute } from '../access.ts';

/**
 * Counts a request and sets the headers with the remaining requests.
 * @throws {AppError} `too_many_requests`
 */
export type RateLimiter = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

const windowMs = 60_000;

/**
 * Limits per minute: one for each API key, one for each address (IPv6: /64) without a valid key, and one for each
 * address and public route. Each process counts separately, so a caller may make n times as many requests to n
 * replicas. Each of the three limits remembers 5,000 callers and drops the least recently seen.
 */
export const rateLimits = fp<{ perKey: number; perAddress: number }>(
  async (app, { perKey, perAddress }) => {
    await app.register(rateLimit, { global: false });
    const limiter = (
      max: number | ((request: FastifyRequest) => number),
      keyGenerator: (request: FastifyRequest) => string,
    ): RateLimiter => {
      const count = app.createRateLimit({ max, timeWindow: windowMs, keyGenerator });
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
    const unlimited: RateLimiter = async () => {};
    app.decorate('rateLimits', {
      perKey: perKey ? limiter(perKey, (request) => request.identity!.keyId ?? request.identity!.userId) : unlimited,
      perAddress: perAddress ? limiter(perAddress, readAddress) : unlimited,
      perPublicRoute: perAddress
        ? limiter(
            ({ routeOptions }) => publicRequestsPerMinute(routeOptions.config.access)!,
            (request) => `${request.routeOptions.url} ${readAddress(request)}`,
          )
        : unlimited,
    });
  },
  { name: 'rate-limits' },
);

const readAddress = (request: FastifyRequest) => normalizeIP(request.ip);
