import { endSession } from '../../../../db/accounts/sign-ins.ts';
import { AppError } from '../../../../domain/errors.ts';
import { anyUser, callerOf } from '../../../access.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { failures, messageEnvelope, ofMutations, successMessage } from '../../../schemas/replies.ts';

/** `POST /v1/auth/sign-out`. */
export function signOut(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/auth/sign-out',
    config: { access: anyUser('own') },
    schema: {
      operationId: 'signOut',
      tags: ['Sign-in'],
      summary: 'End the session of the access token in the request',
      description:
        'The session ends immediately, with the exec streams that were opened in it. A request with an API key ' +
        'has no ' +
        'session to end.',
      response: {
        200: messageEnvelope('The token no longer works'),
        ...failures(ofMutations, 'no_session'),
      },
    },
    handler: async (request) => {
      const { sessionId } = callerOf(request);
      if (sessionId === null) throw new AppError('no_session', 'An API key has no session to end');
      await endSession(deps.orm.em, sessionId);
      return successMessage('Signed out');
    },
  });
}
