import type { FastifyReply, FastifyRequest } from 'fastify';
import { accountPageUrl } from '../../platform/config/public-urls.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { reportFailure, sendError } from '../plugins/errors.ts';
import type { AccessToken } from '../routes/accounts/sign-in/with-password.ts';
import { signedInPage } from './account-forms.ts';
import { sendPage, sendProblemPage } from './frame.ts';

/** Whether the request comes from a person's browser. Programs get JSON. */
export function wantsPage({ headers }: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '');
}

/**
 * Shows a token to a person who has signed in through an identity provider. The operator's console gets it after the
 * `#` of its address, because browsers send that part to no server.
 */
export function sendSignedIn(reply: FastifyReply, settings: Settings, token: AccessToken): FastifyReply {
  if (!settings.PLATFORM_CONSOLE_URL) return sendPage(reply, 200, signedInPage(token));
  const { accessToken, expiresAt } = token;
  const fields = new URLSearchParams({ access_token: accessToken, expires_at: expiresAt.toISOString() });
  return redirectToConsole(reply, `${accountPageUrl(settings, 'sign-in')}#${fields}`);
}

/** Reports a failed sign-in through an identity provider to a person, the operator's console, or a program. */
export function problemHandler(settings: Settings) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    reply.header('cache-control', 'no-store');
    if (!wantsPage(request)) return sendError(error, request, reply);
    const failure = reportFailure(error, request, reply);
    if (!settings.PLATFORM_CONSOLE_URL) return sendProblemPage(reply, failure);
    return redirectToConsole(reply, accountPageUrl(settings, 'sign-in', { error: failure.code }));
  };
}

function redirectToConsole(reply: FastifyReply, url: string): FastifyReply {
  return reply.headers({ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' }).redirect(url);
}
