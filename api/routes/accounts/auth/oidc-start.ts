import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { oidcPath } from '../../../oidc/identity-providers.ts';
import { problemHandler } from '../../../pages/oidc-answers.ts';
import { failures } from '../../../schemas/replies.ts';
import { oidcIssuerPath } from './oidc-path.ts';

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
