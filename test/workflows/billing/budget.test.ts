import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { deleteBudget } from '../../../db/billing/budgets.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { workflowKinds } from '../../../domain/workflow-registry.ts';
import { startOptions } from '../../../platform/temporal/workflow-starts.ts';
import type { Json } from '../../api/contract-client.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { addUsage, ageAccount } from '../../support/added-usage.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { MailServer } from '../../support/mail-server.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';
import { WebhookReceiver } from '../../support/webhook-receiver.ts';

/** Budgets through HTTP, checked by workflows on a real Temporal, with real mails and webhooks. */
const budgets = '/v1/budgets';
const recording = process.env.RECORD_HISTORIES === '1';
let mails: MailServer;
let receiver: WebhookReceiver;
let plane: ControlPlane;
let api: TestApi;

beforeAll(async () => {
  mails = await MailServer.start();
  receiver = await WebhookReceiver.start();
  const env = { SMTP_URL: mails.url, PLATFORM_MAIL_FROM: 'no-reply@platform.test', PLATFORM_BILLING: 'on' };
  const pausing = { ...env, PLATFORM_USED_UP_BUDGET: 'pause' };
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro', env: pausing });
  plane.webhookRelay.start();
  api = await startApi({
    env: { ...env, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0', PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8' },
    on: { orm: plane.orm, account: plane.account, commands: plane.commands },
  });
  await ageAccount(plane.orm.em, plane.account.accountId, '5 days');
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
  await mails?.stop();
  await receiver?.stop();
});

const { workflowId: formatWorkflowId } = workflowKinds.budget;
const handle = () => plane.client.workflow.getHandle(formatWorkflowId(plane.account.accountId));
const budgetNow = async (): Promise<Json> => (await api.send(api.root, 'GET', budgets)).body.data;
/** Each event once: a slow machine may get one twice. */
const received = (type: string): Json[] =>
  [...new Map(receiver.received.map(({ id, body }) => [id, JSON.parse(body)])).values()].filter(
    (each) => each.type === type,
  );

test('a hard limit is crossed: mails, webhooks, refusals, and a larger amount lifts it', async () => {
  const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
  const hook = { url: receiver.url, event_types: ['budget.*'], scope: 'account', secret };
  expect((await api.send(api.root, 'POST', '/v1/webhooks', hook)).status).toBe(201);
  const wanted = {
    budget_amount: 10,
    limit_type: 'hard',
    notification_emails: ['finance@example.com', 'gone@example.com'],
  };
  // The second address is invalid.
  mails.answersTo.set('gone@example.com', Array(10).fill('550 no such mailbox'));
  expect((await api.send(api.root, 'POST', budgets, wanted)).status).toBe(201);

  await addUsage(plane.orm.em, plane.account.accountId, '8.5');
  // Each creation starts a check of the budget.
  const first = await api.send(api.root, 'POST', '/v1/sandboxes', {});
  expect(first.status).toBe(201);
  const [one, other] = [await mails.take('finance@example.com'), await mails.take('finance@example.com')];
  expect([one.subject, other.subject].sort()).toEqual(['50 % of your budget is used', '80 % of your budget is used']);
  expect(one.text).toMatch(/8\.50\d{4} USD of its budget of 10\.00 USD \(85\.\d\d %\)/);
  await until(() => received('budget.threshold_crossed').length === 2);
  const { body, headers } = receiver.received[0]!;
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({
    type: 'budget.threshold_crossed',
    data: {
      account_id: plane.account.accountId,
      budget_amount: 10,
      amount_used: expect.closeTo(8.5, 2),
      limit_type: 'hard',
    },
  });

  await addUsage(plane.orm.em, plane.account.accountId, '1.5');
  const second = await api.send(api.root, 'POST', '/v1/sandboxes', {});
  expect(second.status).toBe(201);
  await until(async () => (await budgetNow()).is_restricted);
  const third = await api.send(api.root, 'POST', '/v1/sandboxes', {});
  expect([third.status, third.body.code]).toEqual([403, 'budget_restricted']);
  expect((await mails.take('finance@example.com')).subject).toBe('Your budget is used up');
  await until(() => received('budget.restricted').length === 1);
  expect(received('budget.restricted')[0]!.data).toMatchObject({
    // Includes the seconds that the sandboxes have run.
    ...{ amount_used: expect.closeTo(10, 2), percentage_used: expect.closeTo(100, 1) },
  });

  const sandboxId = first.body.data.sandbox_id as SandboxId;
  // The operator's settings pause them.
  await until(async () => (await plane.row(sandboxId)).status === 'paused');
  expect((await plane.row(sandboxId)).reason).toBe('budget_restricted');
  for (const way of ['resume', 'connect', 'restart']) {
    const refused = await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/${way}`);
    expect([way, refused.status, refused.body.code]).toEqual([way, 403, 'budget_restricted']);
  }
  expect((await plane.row(sandboxId)).status).toBe('paused');

  expect((await api.send(api.root, 'PUT', budgets, { budget_amount: 100 })).body.data.is_restricted).toBe(false);
  expect((await api.send(api.root, 'POST', `/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
  await until(() => received('budget.restored').length === 1);
  expect(received('budget.restored')[0]!.data).toMatchObject({ because: 'budget_changed', budget_amount: 100 });
  const sequences = () => receiver.received.map((each) => JSON.parse(each.body).data.sequence as number);
  // They are sent concurrently, so they may arrive in any order.
  await until(() => new Set(sequences()).size === 5);
  expect([...new Set(sequences())].sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5]);

  const { messages } = (await api.send(api.root, 'GET', `${budgets}/messages`)).body.data;
  expect(messages.map((each: Json) => each.threshold_percent).sort((a: number, b: number) => a - b)).toEqual([
    50, 80, 100,
  ]);
  await until(async () => {
    const { body: page } = await api.send(api.root, 'GET', `${budgets}/messages`);
    return page.data.messages.every((each: Json) => each.email_sent);
  });
  // The mails to the other addresses were sent.
  const mailing = plane.client.workflow.getHandle(messages[0].id);
  await expect(mailing.result()).rejects.toThrow();
  if (recording) await recordHistory(plane.client, 'budget-mail', messages[0].id);
});

test('the workflow ends with its budget and starts again with the next one', async () => {
  await deleteBudget(plane.orm.em.fork(), plane.account.accountId);
  await handle().result();
  if (recording) await recordHistory(plane.client, 'budget', formatWorkflowId(plane.account.accountId));
  expect(await budgetNow()).toBeNull();
  expect((await api.send(api.root, 'POST', budgets, { budget_amount: 500 })).status).toBe(201);
  await until(async () => (await handle().describe()).status.name === 'RUNNING');
  // In quick succession: whichever run gets the signals, the last one has a budget to check.
  for (let round = 0; round < 5; round += 1) {
    expect((await api.send(api.root, 'DELETE', budgets)).status).toBe(200);
    // A threshold that was not reported today.
    const wanted = { budget_amount: 500 + round, alert_thresholds: [{ percent: 42 }] };
    expect((await api.send(api.root, 'POST', budgets, wanted)).status).toBe(201);
  }
  await until(async () => {
    const [left] = (await plane.orm.em
      .fork()
      .execute("select count(*)::int as n from outbox where workflow_type = 'budget'")) as unknown as { n: number }[];
    return left!.n === 0;
  });
  await addUsage(plane.orm.em, plane.account.accountId, '1000');
  const { sandbox_id: id } = (await api.send(api.root, 'POST', '/v1/sandboxes', {})).body.data;
  expect(id).toMatch(/^sbx-/);
  await until(async () => {
    const { messages } = (await api.send(api.root, 'GET', `${budgets}/messages`)).body.data;
    return messages.some((each: Json) => each.budget_amount === 504);
  });
});

test('a workflow that was ended by hand is started again by the next upkeep', async () => {
  await handle().terminate('by an operator');
  await plane.orm.em.fork().execute("update budgets set checked_at = now() - interval '31 minutes'");
  await plane.client.workflow.execute('maintenance', startOptions('maintenance', '', undefined));
  await until(async () => (await handle().describe()).status.name === 'RUNNING');
});
