import { expect, test } from '@jest/globals';
import { readPagePath } from '../../gateway/pages/page-paths.ts';
import { sealSession, sessionCookieField, sessionEnd, takeSessions } from '../../gateway/pages/page-session.ts';

const sandbox = { sandboxId: 'sbx-one', accessToken: 'token-of-sbx-one' } as Parameters<typeof sessionEnd>[1];
const nowMs = 1_800_000_000_000;
const endsAt = nowMs / 1000 + 60;
const sealed = sealSession(sandbox.sandboxId, sandbox.accessToken!, endsAt);

test('a session is valid for its sandbox until it expires', () => {
  expect(sessionEnd([sealed], sandbox, nowMs)).toBe(endsAt);
  expect(sessionEnd([sealed], sandbox, endsAt * 1000)).toBeNull();
  expect(sessionEnd([sealed], { ...sandbox, sandboxId: 'sbx-two' } as typeof sandbox, nowMs)).toBeNull();
  expect(sessionEnd([sealed], { ...sandbox, accessToken: 'another token' }, nowMs)).toBeNull();
  expect(sessionEnd([sealed], { ...sandbox, accessToken: null }, nowMs)).toBeNull();
});

test.each([
  ['none', []],
  ['two of them', [sealed, sealed]],
  ['a later end', [sealed.replace(String(endsAt), String(endsAt + 1))]],
  ['no signature', [`${endsAt}.`]],
  ['the token itself', [sandbox.accessToken!]],
  ['nothing', ['']],
])('no session: %s', (_, cookies) => {
  expect(sessionEnd(cookies, sandbox, nowMs)).toBeNull();
});

test('the cookie is valid for this host only, hidden from scripts, and does not contain the token', () => {
  const field = sessionCookieField(sealed);
  expect(field).toBe(`__Host-sandbox-session=${sealed}; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict`);
  expect(field).not.toContain(sandbox.accessToken);
});

test.each([
  ['a=1; __Host-sandbox-session=x; b=2', 'a=1; b=2', ['x']],
  ['__Host-sandbox-session=x', null, ['x']],
  ['__Host-sandbox-session=x;__Host-sandbox-session=y', null, ['x', 'y']],
  // Names are case-sensitive, but a lenient server may accept this one.
  ['a=1; __HOST-Sandbox-Session=x', 'a=1', []],
  // A cookie without a name, with a value that looks like a named one.
  ['=__Host-sandbox-session=x; a=1', 'a=1', []],
  ['a="b; c"; d', 'a="b; c"; d', []],
])('of the cookies %j the sandbox sees %j', (cookie, rest, sessions) => {
  expect(takeSessions(cookie)).toEqual({ rest, sessions });
});

test.each([
  ['/terminal', 'document'],
  ['/files?a=b', 'document'],
  ['/terminal/session', 'session'],
  ['/files/assets/files-A.js', 'asset'],
  ['/terminal/agent/Process/Start', 'agent'],
  ['/files/agent/download/%2Froot%2Fa.txt', 'agent'],
  ['/files/agent/Process/Start', 'nothing'],
  ['/terminal/agent/Filesystem/Remove', 'nothing'],
  ['/terminal/agent/Process/Start/', 'nothing'],
  ['/files/../terminal', 'nothing'],
  ['/terminals', null],
  ['/Terminal', null],
  ['//terminal', null],
  ['/%74erminal', null],
  ['/upload', null],
])('%s is %s of a page', (target, kind) => {
  expect(readPagePath(target)?.kind ?? null).toBe(kind);
});
