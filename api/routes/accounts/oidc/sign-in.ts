import { z } from 'zod';
import { isAddressOfIdentities, signInByIdentity, takeSignInState } from '../../../../db/accounts/identity-sign-ins.ts';
import { admitAddress, forgiveAddress } from '../../../../db/accounts/sign-ins.ts';
import { clientKey } from '../../../../domain/client-address.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { optionalQuery } from '../../../schemas/fields.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { type AccessToken, requireNoWait, tokenSchema } from '../sign-in/with-password.ts';
import { enterConsole, problemHandler, wantsPage } from './browser-replies.ts';
import type { IdentityProvider, SignInChecks } from './identity-provider.ts';
import { oidcPath } from './identity-providers.ts';
import { notPending, pendingSeconds } from './pending-sign-ins.ts';

const providerSchema = z.object({
  id: z.string().meta({ examples: ['corp'] }),
  label: z
    .string()
    .meta({ examples: ['Example Corp'] })
    .describe('The text of the button'),
  start_path: z
    .string()
    .meta({ examples: ['/v1/auth/oidc/corp/start'] })
    .describe('Where the button leads: `GET /v1/auth/oidc/{issuer}/start`'),
});

/** `GET /v1/auth/providers`. */
export function listIdentityProviders(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/auth/providers',
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId: 'listIdentityProviders',
      tags: ['Sign-in'],
      summary: 'List the identity providers for the buttons of a sign-in page',
      description: 'The identity providers that the operator has configured. Empty: users sign in with passwords only.',
      response: {
        200: envelope(z.object({ providers: z.array(providerSchema) }), 'The identity providers'),
        ...failures(),
      },
    },
    handler: async () => {
      const providers = deps.identityProviders.all;
      return success({
        providers: providers.map(({ id, label, startPath }) => ({ id, label, start_path: startPath })),
      });
    },
  });
}

const oidcIssuerPath = z.object({
  issuer: z.string().describe('The `id` of an issuer in `PLATFORM_OIDC_ISSUERS`'),
});

/** Segments without dots, so that no path leads out of the console. A query needs no `/`. */
const consolePath = /^\/([\w-]+(\/[\w-]+)*\/?)?(\?[\w.~%&=,:+*-]*)?$/;

const startQuery = z.object({
  return_to: optionalQuery(
    z.string().max(512).regex(consolePath, 'must be a path of the console, such as /sandboxes'),
  ).describe('The path in the console where the browser goes after the sign-in. Default `/`'),
});

/** `GET /v1/auth/oidc/{issuer}/start`. The target of a button on the sign-in page. */
export function startOidcSignIn(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${oidcPath}/:issuer/start`,
    exposeHeadRoute: false,
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId: 'startOidcSignIn',
      tags: ['Sign-in'],
      summary: 'Redirect a browser to an identity provider to sign in',
      description:
        'Replies 302 to the identity provider that the operator configured with this id, with a cookie that binds ' +
        'the sign-in to this browser. The sign-in must be completed within ten minutes. If a request that accepts HTML ' +
        'fails, it is redirected to the sign-in page of the console with the code of the error.',
      params: oidcIssuerPath,
      querystring: startQuery,
      response: {
        302: z.null().describe('Redirect to the identity provider. The browser keeps a cookie for ten minutes'),
        ...failures('not_found', 'identity_provider_unavailable'),
      },
    },
    errorHandler: problemHandler(deps.settings),
    handler: async (request, reply) => {
      const provider = deps.identityProviders.get(request.params.issuer);
      const { url, checks } = await provider.begin();
      const returnTo = request.query.return_to ?? '/';
      deps.pendingSignIns.keep(request, reply, provider.issuer.id, { checks, returnTo });
      return reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }).redirect(url.href);
    },
  });
}

const query = z.object({
  state: z
    .string()
    .max(256)
    .default('')
    .describe('The state of the start in the same browser; works once, for ten minutes'),
  code: z.string().max(4096).optional().describe('The authorization code of the identity provider'),
  iss: z.string().max(2048).optional().describe('The issuer, if the provider sends it (RFC 9207)'),
  error: z.string().max(256).optional().describe('The reason why the identity provider refused the sign-in'),
  error_description: z.string().max(4096).optional(),
});

/** `GET /v1/auth/oidc/{issuer}/callback`. The identity provider redirects the browser here. */
export function finishOidcSignIn(api: Api, deps: ApiDependencies): void {
  const operationId = 'finishOidcSignIn';
  api.route({
    method: 'GET',
    url: `${oidcPath}/:issuer/callback`,
    exposeHeadRoute: false,
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId,
      tags: ['Sign-in'],
      summary: 'Complete a sign-in with the reply of an identity provider',
      description:
        'The identity provider redirects the browser here with `code` and `state`, or with `error`. The code ' +
        'is exchanged for tokens, and ' +
        'the user with this identity, or the user who was invited with its e-mail, gets an access token. A request that ' +
        'accepts HTML is redirected to the console, with the session in a cookie, or in case of an error to its ' +
        'sign-in page with the code.',
      params: oidcIssuerPath,
      querystring: query,
      response: {
        200: envelope(tokenSchema, 'An access token, which works for an hour'),
        302: z.null().describe('Redirect to the console; with `PLATFORM_CONSOLE_URL` to its page `sign-in`'),
        ...failures(
          ...(['not_found', 'sign_in_not_pending', 'identity_not_proven', 'sign_in_declined'] as const),
          ...(['email_not_verified', 'email_domain_not_allowed', 'not_invited', 'email_taken'] as const),
          ...(['user_disabled', 'account_suspended', 'user_limit_reached', 'too_many_sign_ins'] as const),
          'identity_provider_unavailable',
        ),
      },
    },
    errorHandler: problemHandler(deps.settings),
    handler: async (request, reply) => {
      const provider = deps.identityProviders.get(request.params.issuer);
      const { checks, returnTo } = deps.pendingSignIns.take(request, reply, provider.issuer.id, request.query.state);
      const token = await signInThroughProvider(deps, provider, {
        query: request.url.split('?')[1] ?? '',
        checks,
        address: request.ip,
        requestId: request.id,
        action: operationId,
      });
      reply.header('cache-control', 'no-store');
      if (wantsPage(request)) return enterConsole(reply, deps.settings, token, returnTo);
      return reply.send(success({ access_token: token.accessToken, expires_at: token.expiresAt }));
    },
  });
}

interface Callback {
  /** The query of the callback address to which the provider sent the person. */
  query: string;
  /** The pending sign-in of this browser. */
  checks: SignInChecks;
  /** The address of the client. */
  address: string;
  requestId: string;
  /** The action in the audit log. */
  action: string;
}

/**
 * Signs in a person who comes back from an identity provider. Until it has succeeded, the attempt counts as a failure
 * of its address, unless users of this provider have signed in from there.
 * @throws {AppError} `sign_in_not_pending`, `too_many_sign_ins`, and the errors of `IdentityProvider.finish` and
 * `signInByIdentity`
 */
async function signInThroughProvider(
  deps: ApiDependencies,
  provider: IdentityProvider,
  callback: Callback,
): Promise<AccessToken> {
  const { em } = deps.orm;
  const address = clientKey(callback.address);
  if (!(await takeSignInState(em, callback.checks.state, pendingSeconds))) throw notPending();
  const { account_id: accountId, domains: emailDomains, create_users: createsUsers } = provider.issuer;
  const isKnown = await isAddressOfIdentities(em, accountId, address);
  if (!isKnown) requireNoWait(await admitAddress(em, address), '');
  const identity = await provider.finish(callback.query, callback.checks).catch(async (error) => {
    // An outage of the provider is not a failed attempt of the person.
    const isOutage = error instanceof AppError && error.code === 'identity_provider_unavailable';
    if (isOutage && !isKnown) await forgiveAddress(em, address);
    throw error;
  });
  const { userId, session } = await signInByIdentity(
    em,
    identity,
    { accountId, emailDomains, createsUsers },
    { ...callback, clientKey: address, isCounted: !isKnown },
  );
  return { accessToken: await deps.accessTokens.make(session, userId), expiresAt: session.expiresAt };
}
