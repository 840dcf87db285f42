import { expect, test } from '@jest/globals';
import type { ActivityOptions } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time.js';
import { pagesPerActivity } from '../../activities/billing/reconciliation.ts';
import { controlTaskQueues } from '../../domain/task-queues.ts';
import { type WorkflowInput, type WorkflowType, workflowKinds } from '../../domain/workflow-registry.ts';
import { connectMs, silenceMs } from '../../integrations/mail/mailer.ts';
import { requestTimeoutMs } from '../../integrations/payments/processor.ts';
import { headMs } from '../../integrations/registry/registry-http.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import * as profiles from '../../workflows/activity-profiles.ts';
import * as workflows from '../../workflows/index.ts';
import { imagesPerActivity } from '../../workflows/templates/image-collection.ts';

/** Does not compile if the input type of a workflow differs from the registry. */
const typed: { [Type in WorkflowType]: (input: WorkflowInput<Type>) => Promise<unknown> } = workflows;

test('the registry has exactly the workflows of the worker', () => {
  expect(Object.keys(typed).sort()).toEqual(Object.keys(workflowKinds).sort());
});

test('each id belongs to one workflow type, so ids of two types never collide', () => {
  const ids = Object.values(workflowKinds).map(({ workflowId }) => workflowId('sbx-a'));
  // Ids of objects have a prefix for each kind, so a user's `…/deletion` is never a sandbox's.
  expect(ids).toEqual([
    'sbx-a',
    'sbx-a/deletion',
    'sbx-a',
    'sbx-a',
    'sbx-a/password-reset',
    'sbx-a/invitation',
    'sbx-a/deletion',
    'sbx-a/email-change',
    'sbx-a/billing',
    'sbx-a/plan-change',
    'sbx-a/mail',
    'sbx-a',
    'sbx-a/build',
    'sbx-a',
    'sbx-a/removal',
    'sbx-a',
    'sbx-a/budget',
    'sbx-a',
    'image-collection',
    'reconciliation',
    'maintenance',
  ]);
});

test('a workflow starts under its own id with its search attributes', () => {
  expect(startOptions('host', 'host-a', { hostId: 'host-a' })).toMatchObject({
    workflowId: 'host-a',
    args: [{ hostId: 'host-a' }],
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    typedSearchAttributes: [expect.objectContaining({ value: 'host-a' })],
  });
  expect(startOptions('maintenance', '', undefined).args).toEqual([]);
});

test('an activity has time for all of its calls', () => {
  const ms = (profile: ActivityOptions) => msToNumber(profile.startToCloseTimeout!);
  // A plan change at worst: read, cancel, read, prepare, confirm, read; then cancel, read.
  expect(ms(profiles.outside.money)).toBeGreaterThan(8 * requestTimeoutMs);
  expect(ms(profiles.outside.records)).toBeGreaterThan(pagesPerActivity * requestTimeoutMs);
  // For each image: a token and a request.
  expect(ms(profiles.outside.registry)).toBeGreaterThan(imagesPerActivity * 2 * headMs);
  // DNS, connection, greeting; EHLO, STARTTLS, EHLO, AUTH in two steps, MAIL, RCPT, DATA, text.
  expect(ms(profiles.outside.mail)).toBeGreaterThan(3 * connectMs + 9 * silenceMs);
});

/** Those of the platform itself. All others belong to an account. */
const ofPlatform: WorkflowType[] = ['host', 'imageCollection', 'reconciliation', 'maintenance'];

test('each workflow of an account is found by its account, and its tasks take turns with those of other accounts', () => {
  for (const type of Object.keys(workflowKinds) as WorkflowType[]) {
    const ofAccount = { accountId: 'acc-a', ...(type === 'sandbox' && { plan: { accountId: 'acc-a' } }) };
    const input = (ofPlatform.includes(type) ? { hostId: 'host-a' } : ofAccount) as WorkflowInput<typeof type>;
    const { typedSearchAttributes, priority } = startOptions(type, 'a', input);
    const accounts = typedSearchAttributes.filter(({ key }) => key.name === 'AccountId').map(({ value }) => value);
    const wanted = ofPlatform.includes(type) ? [[], undefined] : [['acc-a'], { fairnessKey: 'acc-a' }];
    expect([type, accounts, priority]).toEqual([type, ...wanted]);
  }
});

test('each kind of work has its own queue, and activities of a workflow use the queue of its work', () => {
  const { imageCopy, registry, money, records, mail, mailWithLink, webhook } = profiles.outside;
  const queues = [imageCopy, registry, money, records, mail, mailWithLink, webhook].map(({ taskQueue }) => taskQueue);
  const { images, money: ofMoney, upkeep, webhooks, sandboxes } = controlTaskQueues;
  expect(queues).toEqual([images, images, ofMoney, ofMoney, upkeep, upkeep, webhooks]);
  expect(new Set(Object.values(controlTaskQueues)).size).toBe(5);
  // Running lives of sandboxes continue in this queue, so its name stays.
  expect(sandboxes).toBe('control');
  expect(startOptions('webhookDelivery', 'whd-a', {} as WorkflowInput<'webhookDelivery'>).taskQueue).toBe(webhooks);
});

test('each attempt of an activity has a time limit in every profile, and long ones have a heartbeat', () => {
  const { database, upkeep, watch, onHost, outside } = profiles;
  const ofHosts = Object.values(onHost).map((profile) => profile('host-a'));
  for (const profile of [database, upkeep, watch, ...ofHosts, ...Object.values(outside)]) {
    expect(msToNumber(profile.startToCloseTimeout!)).toBeGreaterThan(0);
    expect(profile.retry).toBeDefined();
  }
  for (const profile of [
    watch,
    outside.imageCopy,
    outside.webhook,
    outside.money,
    onHost.starting('host-a'),
    onHost.building('host-a'),
  ])
    expect(profile.heartbeatTimeout).toBeDefined();
  // The SDK sends a heartbeat in four fifths of the timeout: at most three a minute for each host, all the time.
  expect(60_000 / (0.8 * msToNumber(watch.heartbeatTimeout!))).toBeLessThanOrEqual(3);
  expect(new Set(ofHosts.map(({ taskQueue }) => taskQueue))).toEqual(new Set(['host/host-a', 'host/host-a/ending']));
});
