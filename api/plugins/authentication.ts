import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { type Identity, identifyApiKey, identifySession } from '../../db/accounts/identities.ts';
import type { Orm } from '../../db/orm.ts';
import { AppError } from '../../domain/errors.ts';
import { type AccessTokens, isAccessTokenShape } from '../routes/accounts/sign-in/access-tokens.ts';
import { noSuchRoute } from './errors.ts';

/** The credential that a request carries. */
type Credential = { kind: 'key' | 'token'; secret: string };

/**
 * Identifies and counts the caller before the body is read. Keys are sent as `X-API-Key` or `Authorization: Api-Key …`,
 * access tokens as `Authorization: Bearer …`. Requests without a valid credential are counted by address, so that keys
 * cannot be guessed quickly. `access` decides what the caller may do. Unknown addresses are answered here too, because
 * the framework would first read the body.
 */
export const authentication = fp<{ orm: Orm; accessTokens: AccessTokens }>(
  async (app, { orm, accessTokens }) => {
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
      const inQuery = access.who === 'user' && access.orToken ? tokenInQuery(request) : null;
      // The route has tokens of its own kind and checks them.
      if (inQuery !== null && !isAccessTokenShape(inQuery)) return app.rateLimits.perAddress(request, reply);
      const credential: Credential | null =
        inQuery === null ? parseCredential(request) : { kind: 'token', secret: inQuery };
      request.identity = await identify(credential);
      if (!request.identity) {
        await app.rateLimits.perAddress(request, reply);
        reply.header('www-authenticate', 'Api-Key, Bearer');
        throw new AppError('unauthenticated', whyUnknown(credential));
      }
      await app.rateLimits.perKey(request, reply);
    });

    async function identify(credential: Credential | null): Promise<Identity | null> {
      if (credential?.kind === 'key') return identifyApiKey(orm.em, credential.secret);
      const claims = credential && (await accessTokens.open(credential.secret));
      return claims && identifySession(orm.em, claims);
    }
  },
  { name: 'authentication', dependencies: ['errors', 'rate-limits', 'request-limits'] },
);

function whyUnknown(credential: Credential | null): string {
  if (!credential) return 'An API key or an access token is required';
  if (credential.kind === 'key') return 'The API key is not valid';
  if (isAccessTokenShape(credential.secret)) return 'The access token is not valid, or has expired';
  return 'This is not an access token. Send an API key in X-API-Key';
}

function tokenInQuery(request: FastifyRequest): string | null {
  const { token } = request.query as { token?: unknown };
  return typeof token === 'string' ? token : null;
}

function parseCredential(request: FastifyRequest): Credential | null {
  const header = request.headers['x-api-key'];
  if (typeof header === 'string' && header !== '') return { kind: 'key', secret: header.trim() };
  const [, scheme, secret] = /^(api-key|bearer) +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
  return secret === undefined ? null : { kind: scheme!.toLowerCase() === 'bearer' ? 'token' : 'key', secret };
}
