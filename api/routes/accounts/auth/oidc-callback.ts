import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { oidcPath } from '../../../oidc/identity-providers.ts';
import { signInThroughProvider } from '../../../oidc/sign-in.ts';
import { problemHandler, sendSignedIn, wantsPage } from '../../../pages/oidc-answers.ts';
import { envelope, failures, success } from '../../../schemas/replies.ts';
import { oidcIssuerPath } from './oidc-path.ts';
import { tokenSchema } from './token-schema.ts';

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
