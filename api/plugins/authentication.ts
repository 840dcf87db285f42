import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Orm } from '../../db/orm.ts';
import { identifyApiKey } from '../../db/repositories/identities.ts';
import { AppError } from '../../domain/errors.ts';
import { noSuchRoute } from './errors.ts';

/**
 * Identifies and counts the caller before the body is read. Keys come as `X-API-Key` or `Authorization: Api-Key …`.
 * Requests without a valid key count by address, so that keys cannot be guessed at speed. What the caller may do is
 * decided by `access`. An address with no route is answered here, too: the framework would read the body first.
 */
export const authentication = fp<{ orm: Orm }>(
  async (app, { orm }) => {
    app.decorateRequest('identity', null);
    app.decorateRequest('workflowId', null);
    app.addHook('onRequest', async (request, reply) => {
      if (request.is404) {
        await app.rateLimits.perAddress(request, reply);
        const { error, allow } = noSuchRoute(app, request.method, request.url);
        if (allow) reply.header('allow', allow);
        throw error;
      }
      const { access } = request.routeOptions.config;
      if (access.who === 'anyone') return app.rateLimits.perPublicRoute(request, reply);
      if (access.who === 'user' && access.orToken && hasToken(request)) {
        return app.rateLimits.perAddress(request, reply);
      }
      const secret = apiKeyOf(request);
      request.identity = secret === null ? null : await identifyApiKey(orm.em, secret);
      if (!request.identity) {
        await app.rateLimits.perAddress(request, reply);
        reply.header('www-authenticate', 'Api-Key');
        throw new AppError('unauthenticated', secret === null ? 'An API key is required' : 'The API key is not valid');
      }
      await app.rateLimits.perKey(request, reply);
    });
  },
  { name: 'authentication', dependencies: ['errors', 'rate-limits', 'request-limits'] },
);

function hasToken(request: FastifyRequest): boolean {
  return typeof (request.query as { token?: unknown }).token === 'string';
}

function apiKeyOf(request: FastifyRequest): string | null {
  const header = request.headers['x-api-key'];
  if (typeof header === 'string' && header !== '') return header.trim();
  const scheme = /^api-key +(\S+) *$/i.exec(request.headers.authorization ?? '');
  return scheme ? scheme[1]! : null;
}
