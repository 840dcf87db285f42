import { randomBytes, randomUUID } from 'node:crypto';
import { runOperator } from './operator.ts';
import type { RunningPlatform } from './running-platform.ts';

/** Somebody who can sign in to the console, with a key for what a test prepares. */
export interface Person {
  email: string;
  password: string;
  apiKey: string;
  accountId: string;
}

/** Makes an account and gives its root user a password, as the link in the mail does. */
export async function newRoot(platform: RunningPlatform, ...options: string[]): Promise<Person> {
  const email = `${randomUUID()}@example.com`;
  const account = await operate(platform, 'create-account', '--email', email, '--plan', 'enterprise', ...options);
  const { link } = await operate(platform, 'reset-password', '--email', email);
  const password = newPassword();
  const token = new URL(link!).searchParams.get('token');
  await platform.client(null).request('POST', '/v1/auth/reset-password', { token, new_password: password });
  return { email, password, apiKey: account.apiKey!, accountId: account.accountId! };
}

/** Makes a user without further rights in a root user's account. */
export async function newUser(platform: RunningPlatform, root: Person): Promise<Person> {
  const email = `${randomUUID()}@example.com`;
  const asRoot = platform.client(root.apiKey);
  const body = { email, username: `u${randomBytes(4).toString('hex')}`, role: 'user' };
  const made = await asRoot.request<{ user_id: string }>('POST', '/v1/user-management/users', body);
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  const { link } = await operate(platform, 'reset-password', '--email', email);
  const password = newPassword();
  const token = new URL(link!).searchParams.get('token');
  await platform.client(null).request('POST', '/v1/auth/reset-password', { token, new_password: password });
  const signedIn = await platform
    .client(null)
    .request<{ access_token: string }>('POST', '/v1/auth/sign-in', { email, password });
  const key = await fetch(`${platform.env.PLATFORM_URL}/v1/api-keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${signedIn.body.data.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'test' }),
  });
  const { data } = (await key.json()) as { data: { api_key: string } };
  return { email, password, apiKey: data.api_key, accountId: root.accountId };
}

const newPassword = () => `pass-${randomBytes(9).toString('base64url')}`;

async function operate(platform: RunningPlatform, ...words: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await runOperator('admin', platform.dataDir, words);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}
