import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { type Identity, identifyApiKey, identifySession } from '../../db/accounts/identities.ts';
import type { Orm } from '../../db/orm.ts';
import { AppError } from '../../domain/errors.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { isE2bAddress } from '../e2b/address.ts';
import { type AccessTokens, isAccessTokenShape } from '../routes/accounts/sign-in/access-tokens.ts';
import { isOwnPage, isReading, readSessionCookie } from '../session-cookie.ts';
import { noSuchRoute } from './errors.ts';

/** The credential that a request carries. */
type Credential = { kind: 'key' | 'token' | 'cookie'; secret: string };

/**
 * Identifies and counts the caller before the body is read. Keys are sent as `X-API-Key` or `Authorization: Api-Key …`,
 * access tokens as `Authorization: Bearer …`, or by a browser in its cookie. Requests without a valid credential are
 * counted by address, so that keys cannot be guessed quickly. `access` decides what the caller may do. Unknown
 * addresses are answered here too, because the framework would first read the body.
 */
export const authentication = fp<{ orm: Orm; accessTokens: AccessTokens; settings: Settings }>(
  async (app, { orm, accessTokens, settings }) => {
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
        inQuery === null ? (parseCredential(request) ?? parseCookie(request)) : { kind: 'token', secret: inQuery };
      if (credential?.kind === 'cookie') await requireOwnPage(request, reply);
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

    /**
     * The cookie of a browser. It is for the console, so it does not count where only programs call: in the protocol of
     * E2B, and at the gateway, whose other hosts serve pages of sandboxes.
     */
    function parseCookie(request: FastifyRequest): Credential | null {
      if (request.isForwarded || isE2bAddress(request.url)) return null;
      const secret = readSessionCookie(request, settings);
      return secret === null ? null : { kind: 'cookie', secret };
    }

    /** A browser sends its cookie also when a page of another origin makes it. @throws {AppError} `cross_site_request` */
    async function requireOwnPage(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      if (isOwnPage(request) ?? isReading(request.method)) return;
      await app.rateLimits.perAddress(request, reply);
      throw new AppError('cross_site_request', 'A page of another origin may not use the session of this browser');
    }
  },
  { name: 'authentication', dependencies: ['errors', 'rate-limits', 'request-limits', 'gateway-clients'] },
);

function whyUnknown(credential: Credential | null): string {
  if (!credential) return 'An API key or an access token is required';
  if (credential.kind === 'key') return 'The API key is not valid';
  if (credential.kind === 'cookie') return 'The session has ended; sign in again';
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
