import { randomBytes } from 'node:crypto';
import { addAccountLink } from '../../../db/accounts/account-links.ts';
import { addEmailChangeToken } from '../../../db/accounts/email-changes.ts';
import { startSession } from '../../../db/accounts/sign-ins.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

/** All kinds of secrets, and all places that accept one. Each secret is valid only in its own place. */
let api: TestApi;
let root: Caller;
let sandboxId: SandboxId;
let tokens: Record<string, string>;

beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  root = await api.addAccount();
  sandboxId = (await api.send(root, 'POST', '/v1/sandboxes', {})).body.data.sandbox_id;
  const { userId, accountId, keyId } = root;
  const expiresAt = new Date(Date.now() + 60_000);
  const attempt = { email: 'any@example.com', address: '192.0.2.1' };
  const session = await startSession(api.orm.em, { userId, passwordHash: null }, attempt);
  const [reset, current] = [random(), random()];
  await addAccountLink(api.orm.em, { token: reset, purpose: 'password-reset', userId, provesEmail: true, expiresAt });
  const [account] = (await api.orm.em
    .fork()
    .execute('select email from accounts where account_id = ?', [accountId])) as { email: string }[];
  const asked = { current_email: account!.email, new_email: `${accountId}@example.com` };
  const url = '/v1/user-management/account/email-change-request';
  expect((await api.send(root, 'POST', url, asked)).status).toBe(200);
  const [change] = (await api.orm.em
    .fork()
    .execute('select change_id from email_changes where account_id = ?', [accountId])) as { change_id: string }[];
  await addEmailChangeToken(api.orm.em, { changeId: change!.change_id, side: 'current', token: current });
  tokens = {
    'an API key': root.key,
    'an access token': await api.dependencies.accessTokens.make(session!, userId),
    'a stream token': api.dependencies.execTokens.make(
      sandboxId,
      { executionId: 'run', credentialId: keyId },
      expiresAt,
    ),
    'the token of a reset': reset,
    'the token of an e-mail change': current,
    'the token of a link that adds a card': await api.dependencies.cardLinks.make(
      { setupIntentId: 'seti_1', credentialId: keyId },
      expiresAt,
    ),
    'the token of a sandbox': `token-of-${sandboxId}`,
  };
});
afterAll(() => api.stop());

const random = () => randomBytes(32).toString('base64url');

type Use = (token: string) => Promise<{ status: number; body: { code?: string } | null }>;

/**
 * The places, and the secrets that each one accepts. The stream's sandbox has no agent: requests that reach it have
 * been let in.
 */
const uses: Record<string, { opens: string[]; use: Use; refusal: [number, string] }> = {
  'X-API-Key': {
    opens: ['an API key'],
    use: (token) => api.client.send('GET', '/v1/users/me', { headers: { 'x-api-key': token } }),
    refusal: [401, 'unauthenticated'],
  },
  'Authorization: Bearer': {
    opens: ['an access token'],
    use: (token) => api.client.send('GET', '/v1/users/me', { headers: { authorization: `Bearer ${token}` } }),
    refusal: [401, 'unauthenticated'],
  },
  'the stream of a command': {
    opens: ['an access token', 'a stream token'],
    use: (token) => api.client.send('GET', `/v1/sandboxes/${sandboxId}/exec/stream?token=${token}`),
    refusal: [401, 'unauthenticated'],
  },
  'a new password': {
    opens: ['the token of a reset'],
    use: (token) =>
      api.send(null, 'POST', '/v1/auth/reset-password', { token, new_password: 'korrekt pferd batterie' }),
    refusal: [400, 'invalid_link'],
  },
  'the confirmation of an e-mail': {
    opens: ['the token of an e-mail change'],
    use: (token) => api.send(null, 'POST', '/v1/user-management/account/confirm-email-change', { token }),
    refusal: [400, 'invalid_link'],
  },
};

test.each(Object.entries(uses))('%s', async (_where, { opens, use, refusal }) => {
  const refused: string[] = [];
  for (const [what, token] of Object.entries(tokens).filter(([each]) => !opens.includes(each))) {
    const { status, body } = await use(token.slice(0, 256));
    expect([what, status, body?.code]).toEqual([what, ...refusal]);
    refused.push(what);
  }
  expect(refused.length + opens.length).toBe(Object.keys(tokens).length);
  for (const what of opens) {
    const { status, body } = await use(tokens[what]!);
    expect([what, status, body?.code]).not.toEqual([what, ...refusal]);
  }
});

test('a used confirmation is void, for itself and for the other address', async () => {
  const { use } = uses['the confirmation of an e-mail']!;
  const token = tokens['the token of an e-mail change']!;
  const twice = await Promise.all([use(token), use(token)]);
  expect(twice.map(({ status }) => status).sort()).toEqual([200, 400]);
  expect((await use(token)).body?.code).toBe('invalid_link');
  const status = await api.send(root, 'GET', '/v1/user-management/account/email-change-status');
  expect(status.body.data).toMatchObject({ has_pending_request: true, status: 'partial_confirmed' });
});
