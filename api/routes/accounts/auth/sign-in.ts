import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { givenPassword } from '../../../schemas/password.ts';
import { envelope, failures, ofMutations, success } from '../../../schemas/replies.ts';
import { signIn } from '../../../sign-in.ts';
import { tokenSchema } from './token-schema.ts';

const body = z.object({ email: z.string().max(1024), password: givenPassword() });

/** `POST /v1/auth/sign-in`. */
export function signInWithPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/sign-in',
    config: { access: anyone({ requestsPerMinute: 60 }) },
    schema: {
      operationId: 'signIn',
      tags: ['Sign-in'],
      summary: 'Sign in with e-mail and password',
      description:
        'The access token works for an hour on every route that accepts an API key, as `Authorization: Bearer ' +
        '<token>`. Failed ' +
        'attempts delay the next ones: `Retry-After` says how long to wait.',
      body,
      response: {
        200: envelope(tokenSchema, 'An access token, which works for an hour'),
        ...failures(ofMutations, 'invalid_credentials', 'too_many_sign_ins'),
      },
    },
    handler: async (request, reply) => {
      const { accessToken, expiresAt } = await signIn(deps, { ...request.body, address: request.ip });
      reply.header('cache-control', 'no-store');
      return success({ access_token: accessToken, expires_at: expiresAt });
    },
  });
}
