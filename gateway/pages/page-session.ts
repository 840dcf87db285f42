import { createHmac } from 'node:crypto';
import type { SandboxId } from '../../domain/ids.ts';
import { trimSpace } from '../header-fields.ts';
import { secretsEqual } from '../signed-query.ts';

/**
 * The session cookie of the web pages of one sandbox, for that sandbox's own host name. Because of the prefix
 * `__Host-`, browsers accept it from no sibling name, such as a name of the sandbox's ports, and send it to none.
 */
export const sessionCookie = '__Host-sandbox-session';
export const sessionSeconds = 12 * 3600;

/** The value of the cookie. It proves that its holder had the access token, and does not contain the token. */
export function sealSession(sandboxId: SandboxId, accessToken: string, expiresAtSeconds: number): string {
  const signed = `web-session:${sandboxId}:${expiresAtSeconds}`;
  return `${expiresAtSeconds}.${createHmac('sha256', accessToken).update(signed).digest('base64url')}`;
}

/** When the session ends, in Unix seconds. Null: there is no session, or it has ended. Two cookies count as none. */
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

/** The `Set-Cookie` field with the session. */
export function sessionCookieField(value: string): string {
  return `${sessionCookie}=${value}; Path=/; Max-Age=${sessionSeconds}; Secure; HttpOnly; SameSite=Strict`;
}

/** Removes the sessions from a Cookie field. Returns the rest, null if it is empty, and the removed values. */
export function takeSessions(cookie: string): { rest: string | null; sessions: string[] } {
  // If the field does not contain the name in any case, it has no session and stays unchanged.
  if (!/__host-sandbox-session/i.test(cookie)) return { rest: cookie, sessions: [] };
  const sessions: string[] = [];
  const rest = cookie.split(';').filter((pair) => {
    const equals = pair.indexOf('=');
    const name = trimSpace(equals < 0 ? pair : pair.slice(0, equals));
    if (name === sessionCookie) sessions.push(trimSpace(pair.slice(equals + 1)));
    // Also removes cookies that another server could mistake for the session: other cases of the name, and cookies
    // without a name.
    return !/__host-sandbox-session/i.test(pair);
  });
  const kept = trimSpace(rest.join(';'));
  return { rest: kept === '' ? null : kept, sessions };
}
