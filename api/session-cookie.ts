import type { FastifyReply, FastifyRequest } from 'fastify';
import { apiUrl } from '../platform/config/public-urls.ts';

type UrlSettings = Parameters<typeof apiUrl>[0];

const isSecure = (settings: UrlSettings) => apiUrl(settings).startsWith('https:');

/** The prefix `__Host-` keeps pages of other hosts from setting the cookie. Browsers accept it only by https. */
const cookieName = (settings: UrlSettings) => (isSecure(settings) ? '__Host-sandbox-session' : 'sandbox-session');

const attributes = (settings: UrlSettings) =>
  ({ path: '/', httpOnly: true, sameSite: 'strict', secure: isSecure(settings) }) as const;

/** Keeps an access token in the browser, where no script can read it, until its session expires. */
export function setSessionCookie(
  reply: FastifyReply,
  settings: UrlSettings,
  { accessToken, expiresAt }: { accessToken: string; expiresAt: Date },
): void {
  reply.setCookie(cookieName(settings), accessToken, { ...attributes(settings), expires: expiresAt });
}

export function clearSessionCookie(reply: FastifyReply, settings: UrlSettings): void {
  reply.clearCookie(cookieName(settings), attributes(settings));
}

/** The access token in the request's cookie. Null: there is none, or two, one of which another host may have set. */
export function readSessionCookie({ headers }: FastifyRequest, settings: UrlSettings): string | null {
  const name = cookieName(settings);
  const values = (headers.cookie ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=');
    return pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : [];
  });
  return values.length === 1 && values[0] !== '' ? values[0]! : null;
}

/**
 * Whether the browser sent the request for a page of the API's own origin. Null: the request does not tell. Pages of
 * sandboxes can be of the same site, so only the origin counts.
 * https://www.w3.org/TR/fetch-metadata/
 */
export function isOwnPage({ headers, method, host }: FastifyRequest): boolean | null {
  const site = headers['sec-fetch-site'];
  // `none`: the person typed the address, or opened it from outside of a page.
  if (site !== undefined) return site === 'same-origin' || (site === 'none' && isReading(method));
  // Browsers send the field only by https, and to loopback addresses.
  const { origin } = headers;
  if (origin === undefined) return null;
  return URL.canParse(origin) && new URL(origin).host === host;
}

/** Whether requests of this method change nothing. */
export const isReading = (method: string) => method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
