import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newId } from '../../../db/core/new-id.ts';
import { workflowKinds } from '../../../domain/workflow-registry.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { startTimeSkippingPlane } from '../../support/control-plane.ts';
import { currentDetails } from '../../support/current-details.ts';
import { MailServer, tokenIn } from '../../support/mail-server.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';

/** Links that are not used. Time jumps to their end. */
let mails: MailServer;
let skipping: Awaited<ReturnType<typeof startTimeSkippingPlane>>;
let api: TestApi;
beforeAll(async () => {
  mails = await MailServer.start();
  const env = { SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'no-reply@platform.test' };
  skipping = await startTimeSkippingPlane(new MemoryDriver(), env);
  const { orm, account, commands } = skipping.plane;
  api = await startApi({ env: { ...env, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' }, on: { orm, account, commands } });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await skipping?.stop();
  await mails?.stop();
});

test("an unconfirmed change of the account's e-mail ends when its links expire", async () => {
  const { environment, plane } = skipping;
  const root = await api.addAccount();
  const { accountId, userId } = root;
  const { email } = (await api.send(root, 'GET', '/v1/users/me')).body.data.account;
  const changeId = newId('emailChange');
  const next = 'never-confirmed@example.com';
  const execute = (sql: string, values: unknown[]) => plane.orm.em.fork().execute(sql, values);
  // As a request stores it, with the time of the jumping clock.
  const expiresAt = new Date((await environment.currentTimeMs()) + 30 * 60_000);
  await execute(
    `insert into email_changes (change_id, account_id, requested_by, current_email, new_email, expires_at)
     values (?, ?, ?, ?, ?, ?)`,
    [changeId, accountId, userId, email, next, expiresAt],
  );
  const options = startOptions('emailChange', accountId, { accountId, changeId });
  const handle = await plane.client.workflow.start('emailChange', options);
  const tokens = { current: tokenIn(await mails.take(email)), new: tokenIn(await mails.take(next)) };
  const confirm = (token: string) =>
    api.send(null, 'POST', '/v1/user-management/account/confirm-email-change', { token });
  expect((await confirm(tokens.new)).body.data.status).toBe('pending');
  expect(await currentDetails(handle)).toBe(`waits for both links until ${expiresAt.toISOString()}`);
  await environment.sleep('31m');
  await handle.result();
  expect(await currentDetails(handle)).toBe('the links have expired');
  expect((await confirm(tokens.current)).body.code).toBe('invalid_link');
  const status = await api.send(root, 'GET', '/v1/user-management/account/email-change-status');
  expect(status.body.data).toEqual({ has_pending_request: false, status: 'none_confirmed' });
  expect(await execute('select status from email_changes where change_id = ?', [changeId])).toEqual([
    { status: 'expired' },
  ]);
  if (process.env.RECORD_HISTORIES === '1') {
    const { workflowId } = workflowKinds.emailChange;
    await recordHistory(plane.client, 'email-change-expired', workflowId(accountId));
  }
});

test('an unused reset ends after 30 minutes, and another may begin', async () => {
  const { environment, plane } = skipping;
  const { accountId, userId } = plane.account;
  const options = startOptions('passwordReset', userId, { accountId, userId });
  const { workflowId } = options;
  const reset = () => plane.client.workflow.start('passwordReset', options);
  await reset();
  await environment.sleep('29m');
  const handle = plane.client.workflow.getHandle(workflowId);
  expect(await currentDetails(handle)).toMatch(/^the link is sent; it works until 20.*Z$/);
  await expect(reset()).rejects.toThrow('already started');
  await environment.sleep('61s');
  await expect(handle.result()).resolves.toBeUndefined();
  expect(await currentDetails(handle)).toBe('the link has expired');
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'password-reset-expired', workflowId);
  // This must be the last step: an activity that runs when its workflow is terminated stops the time jumps permanently.
  await (await reset()).terminate();
});
