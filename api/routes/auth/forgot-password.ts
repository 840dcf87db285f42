import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { requestStart } from '../../../db/repositories/outbox.ts';
import { findResettableUser } from '../../../db/repositories/passwords.ts';
import { readEmailAddress } from '../../../domain/email-address.ts';
import { anyone } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { messageEnvelope, successMessage } from '../../schemas/envelope.ts';
import { failures, ofMutations } from '../../schemas/failures.ts';

/** Each reply takes so long, so that its time does not tell whether somebody has the e-mail. */
const replyAfterMs = 300;

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
      body,
      response: {
        202: messageEnvelope('A link goes to this e-mail if a user has it'),
        ...failures(ofMutations),
      },
    },
    handler: async (request, reply) => {
      await Promise.all([requestReset(deps, request.body.email), delay(replyAfterMs)]);
      return reply.code(202).send(successMessage('If a user has this e-mail, a link to a new password goes there'));
    },
  });
}

async function requestReset(deps: ApiDependencies, text: string): Promise<void> {
  const email = readEmailAddress(text);
  const userId = email && (await findResettableUser(deps.orm.em, { email }));
  if (!userId) return;
  const em = deps.orm.em.fork();
  requestStart(em, 'passwordReset', userId, { userId });
  await em.flush();
}
