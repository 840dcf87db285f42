import { z } from 'zod';
import { anyone } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { requestResetByEmail } from '../../../new-password.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

const body = z.object({ email: z.string().max(1024) });

/** `POST /v1/auth/forgot-password`. */
export function forgotPassword(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/forgot-password',
    config: { access: anyone({ requestsPerMinute: 10 }) },
    schema: {
      operationId: 'forgotPassword',
      tags: ['Sign-in'],
      summary: 'Request a mail with a link to set a new password',
      description:
        'Always replies 202, whether or not a user has this e-mail. The link in the mail works once, for 30 ' +
        'minutes. While ' +
        'a link is valid, no second mail is sent.',
      body,
      response: {
        202: messageEnvelope('If a user has this e-mail, a link is sent to it'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      await requestResetByEmail(deps, request.body.email);
      return reply
        .code(202)
        .send(successMessage('If a user has this e-mail, a link to set a new password is sent to it'));
    },
  });
}
