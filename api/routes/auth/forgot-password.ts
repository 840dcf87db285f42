import { z } from 'zod';
import { anyone } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { requestResetByEmail } from '../../new-password.ts';
import { messageEnvelope, successMessage } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';

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
      summary: 'Have a link to a new password mailed',
      description:
        'Answers 202 whether somebody has this e-mail or not. The link in the mail works once, for 30 minutes. While ' +
        'one is open, nothing new is mailed.',
      body,
      response: {
        202: messageEnvelope('A link goes to this e-mail if a user has it'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      await requestResetByEmail(deps, request.body.email);
      return reply.code(202).send(successMessage('If a user has this e-mail, a link to a new password goes there'));
    },
  });
}
