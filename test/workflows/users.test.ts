import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { workflowKinds } from '../../domain/workflow-registry.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { MailServer, tokenIn } from '../support/mail-server.ts';
import { MemoryDriver } from '../support/memory-driver.ts';
import { recordHistory } from '../support/recorded-histories.ts';

/** Users as they come and go: through the API, by workflows on a real Temporal, with mails on a real SMTP server. */
const users = '/v1/user-management/users';
let mails: MailServer;
let plane: ControlPlane;
let api: TestApi;

beforeAll(async () => {
  mails = await MailServer.start();
  const env = { SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'no-reply@platform.test' };
  plane = await startControlPlane({ driver: new MemoryDriver(), env });
  api = await startApi({
    env: { ...env, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' },
    on: { orm: plane.orm, account: plane.account, commands: plane.commands },
  });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await mails?.stop();
});

test('a new user is invited by a mail, sets a password with its link, and signs in', async () => {
  const wanted = { email: 'grace@example.com', username: 'grace', display_name: 'Grace', role: 'user' };
  const { body } = await api.send(api.root, 'POST', users, wanted);
  const { user_id: userId } = body.data.user;
  const mail = await mails.take(wanted.email);
  expect([mail.subject, mail.text]).toEqual(['Your account is ready', expect.stringContaining('Hello Grace')]);
  expect(mail.text).toContain('You sign in as grace@example.com.');
  const workflowId = workflowKinds.userInvitation.workflowId(userId);
  await plane.client.workflow.getHandle(workflowId).result();
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'user-invitation', workflowId);

  const password = 'korrekt pferd batterie';
  const finished = await api.send(null, 'POST', '/v1/auth/reset-password', {
    token: tokenIn(mail),
    new_password: password,
  });
  expect(finished.status).toBe(200);
  const signedIn = await api.send(null, 'POST', '/v1/auth/sign-in', { email: wanted.email, password });
  expect(signedIn.status).toBe(200);
  const { data } = (await api.send(api.root, 'GET', `${users}/${userId}`)).body;
  expect(data).toMatchObject({ email_verified: true, last_login: expect.any(String) });
});
