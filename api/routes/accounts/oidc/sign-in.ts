import { z } from 'zod';
import { isAddressOfIdentities, signInByIdentity, useSignInState } from '../../../../db/accounts/identity-sign-ins.ts';
import { admitAddress, forgiveAddress } from '../../../../db/accounts/sign-ins.ts';
import { clientKey } from '../../../../domain/client-address.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { problemHandler, sendSignedIn, wantsPage } from '../../../pages/oidc-answers.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { type AccessToken, requireNoWait, tokenSchema } from '../sign-in/with-password.ts';
import type { IdentityProvider, SignInChecks } from './identity-provider.ts';
import { oidcPath } from './identity-providers.ts';
import { notPending, pendingSeconds } from './pending-sign-ins.ts';

const oidcIssuerPath = z.object({
  issuer: z.string().describe('The `id` of an issuer in `PLATFORM_OIDC_ISSUERS`'),
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
      summary: 'Redirect a browser to an identity provider to sign in; an error is a page if the request accepts HTML',
      description:
        'Replies 302 to the identity provider that the operator configured with this id, with a cookie that binds ' +
        'the sign-in to this browser. The sign-in must be completed within ten minutes.',
      params: oidcIssuerPath,
      response: {
        302: z.null().describe('Redirect to the identity provider. The browser keeps a cookie for ten minutes'),
        ...failures('not_found', 'identity_provider_unavailable'),
      },
    },
    errorHandler: problemHandler(deps.settings),
    handler: async (request, reply) => {
      const provider = deps.identityProviders.get(request.params.issuer);
      const { url, checks } = await provider.begin();
      deps.pendingSignIns.keep(request, reply, provider.issuer.id, checks);
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
      summary: 'Complete a sign-in with the reply of an identity provider; returns a page if the request accepts HTML',
      description:
        'The identity provider redirects the browser here with `code` and `state`, or with `error`. The code ' +
        'is exchanged for tokens, and ' +
        'the user with this identity, or the user who was invited with its e-mail, gets an access token.',
      params: oidcIssuerPath,
      querystring: query,
      response: {
        200: {
          description: 'An access token, which works for an hour',
          content: {
            'application/json': { schema: envelope(tokenSchema, 'An access token, which works for an hour') },
            'text/html': { schema: z.string() },
          },
        },
        302: z
          .null()
          .describe('Redirect to the page `sign-in` of `PLATFORM_CONSOLE_URL`, with the token or an error code'),
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
      const checks = deps.pendingSignIns.take(request, reply, provider.issuer.id, request.query.state);
      const token = await signInThroughProvider(deps, provider, {
        query: request.url.split('?')[1] ?? '',
        checks,
        address: request.ip,
        requestId: request.id,
        action: operationId,
      });
      reply.header('cache-control', 'no-store');
      if (wantsPage(request)) return sendSignedIn(reply, deps.settings, token);
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
  if (!(await useSignInState(em, callback.checks.state, pendingSeconds))) throw notPending();
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
