import { createHmac } from 'node:crypto';
import type { SandboxId } from '../../domain/ids.ts';
import { trimSpace } from '../header-fields.ts';
import { secretsEqual } from '../signed-query.ts';

/**
 * The session of the web pages of one sandbox: a cookie of that sandbox's own name. The prefix `__Host-` makes browsers
 * refuse it from sibling names, such as those of the sandbox's ports, and never send it there.
 */
export const sessionCookie = '__Host-sandbox-session';
export const sessionSeconds = 12 * 3600;

/** The value of the cookie. It shows that its holder had the access token, and does not contain it. */
export function sealSession(sandboxId: SandboxId, accessToken: string, expiresAtSeconds: number): string {
  const signed = `web-session:${sandboxId}:${expiresAtSeconds}`;
  return `${expiresAtSeconds}.${createHmac('sha256', accessToken).update(signed).digest('base64url')}`;
}

/** When the session ends, in Unix seconds; null: there is none, or it is over. Two cookies are as bad as none. */
export function sessionEnd(
  cookies: readonly string[],
  { sandboxId, accessToken }: { sandboxId: SandboxId; accessToken: string | null },
  nowMs: number,
): number | null {
  const [value, ...others] = cookies;
  if (!accessToken || value === undefined || others.length > 0) return null;
  const expiresAtSeconds = Number(/^([1-9][0-9]{0,11})\./.exec(value)?.[1] ?? 0);
  if (expiresAtSeconds * 1000 <= nowMs) return null;
  return secretsEqual(value, sealSession(sandboxId, accessToken, expiresAtSeconds)) ? expiresAtSeconds : null;
}

/** The field that hands the session to the browser. */
export function sessionCookieField(value: string): string {
  return `${sessionCookie}=${value}; Path=/; Max-Age=${sessionSeconds}; Secure; HttpOnly; SameSite=Strict`;
}

/** Takes the sessions out of a Cookie field: the rest, null if nothing is left, and their values. */
export function takeSessions(cookie: string): { rest: string | null; sessions: string[] } {
  // Without the name in it, in any case, no cookie of the field is a session: nothing is taken apart.
  if (!/__host-sandbox-session/i.test(cookie)) return { rest: cookie, sessions: [] };
  const sessions: string[] = [];
  const rest = cookie.split(';').filter((pair) => {
    const equals = pair.indexOf('=');
    const name = trimSpace(equals < 0 ? pair : pair.slice(0, equals));
    if (name === sessionCookie) sessions.push(trimSpace(pair.slice(equals + 1)));
    // What another server may take for the cookie goes as well: other cases, and cookies without a name.
    return !/__host-sandbox-session/i.test(pair);
  });
  const kept = trimSpace(rest.join(';'));
  return { rest: kept === '' ? null : kept, sessions };
}
