import type { FastifyReply, FastifyRequest } from 'fastify';
import { accountPageUrl, consoleUrl } from '../../../../platform/config/public-urls.ts';
import type { Settings } from '../../../../platform/config/settings.ts';
import { reportFailure, sendError } from '../../../plugins/errors.ts';
import { setSessionCookie } from '../../../session-cookie.ts';
import type { AccessToken } from '../sign-in/with-password.ts';

/** Whether the request comes from a person's browser. Programs get JSON. */
export function wantsPage({ headers }: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '');
}

/**
 * Redirects a person who has signed in through an identity provider to the console, with the session in a cookie. The
 * operator's own console is at another origin. It gets the token after the `#` of its address, because browsers send
 * that part to no server.
 */
export function enterConsole(
  reply: FastifyReply,
  settings: Settings,
  token: AccessToken,
  returnTo: string,
): FastifyReply {
  if (!settings.PLATFORM_CONSOLE_URL) {
    setSessionCookie(reply, settings, token);
    return redirectToConsole(reply, consoleUrl(settings) + returnTo);
  }
  const { accessToken, expiresAt } = token;
  const fields = new URLSearchParams({ access_token: accessToken, expires_at: expiresAt.toISOString() });
  return redirectToConsole(reply, `${accountPageUrl(settings, 'sign-in')}#${fields}`);
}

/** Reports a failed sign-in through an identity provider to the console for a person, or to a program. */
export function problemHandler(settings: Settings) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    reply.header('cache-control', 'no-store');
    if (!wantsPage(request)) return sendError(error, request, reply);
    const { code } = reportFailure(error, request, reply);
    return redirectToConsole(reply, accountPageUrl(settings, 'sign-in', { error: code }));
  };
}

function redirectToConsole(reply: FastifyReply, url: string): FastifyReply {
  return reply.headers({ 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' }).redirect(url);
}
