import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import type { AccountId, WebhookDeliveryId } from '../../domain/ids.ts';
import type { WorkflowInput } from '../../domain/workflow-registry.ts';
import { readTaskQueueAges } from '../../platform/temporal/task-queue-ages.ts';
import { startOptions } from '../../platform/temporal/workflow-starts.ts';
import { testNamespace } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** The order of waiting tasks. No worker runs: the test takes tasks one by one. */
let client: Client;

beforeEach(async () => {
  const { address, namespace } = await testNamespace();
  client = new Client({ connection: await Connection.connect({ address }), namespace });
}, 120_000);
afterEach(() => client?.connection.close());

/** The workflow id of the next waiting workflow task. */
async function takeNext(taskQueue: string): Promise<string> {
  const { workflowExecution } = await client.connection.withDeadline(Date.now() + 30_000, () =>
    client.workflowService.pollWorkflowTaskQueue({
      ...{ namespace: client.options.namespace, taskQueue: { name: taskQueue }, identity: 'test' },
    }),
  );
  return workflowExecution!.workflowId!;
}

async function startRetries(accountId: AccountId, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, number) => `whd-${accountId}-${number}` as WebhookDeliveryId);
  for (const deliveryId of ids) {
    const options = startOptions('webhookDelivery', deliveryId, {
      ...{ accountId, deliveryId, holder: deliveryId, createdAt: new Date().toISOString() },
      nextAttemptAtMs: 0,
    });
    await client.workflow.start('webhookDelivery', options);
  }
  return ids;
}

test('a sandbox is started before the retries of webhooks that wait longer, and the retries of accounts take turns', async () => {
  const input = { sandboxId: 'sbx-a', plan: { accountId: 'acc-b' } } as unknown as WorkflowInput<'sandbox'>;
  const { workflowId, taskQueue } = startOptions('sandbox', 'sbx-a', input);
  const retries = await startRetries('acc-a', 50);
  const [ofOther] = await startRetries('acc-b', 1);
  await client.workflow.start('sandbox', { workflowId, taskQueue, args: [input] });

  expect(await takeNext(taskQueue)).toBe('sbx-a');
  const queue = startOptions('webhookDelivery', retries[0]!, {} as WorkflowInput<'webhookDelivery'>).taskQueue;
  const taken: string[] = [];
  while (taken.length < 10) taken.push(await takeNext(queue));
  expect(taken).toContain(ofOther);
}, 120_000);

test('the age of the oldest waiting task of each queue is known', async () => {
  await startRetries('acc-c', 1);
  const readAges = async (kind: string) => {
    const ages = await readTaskQueueAges(client);
    return Object.fromEntries(ages.filter((age) => age.kind === kind).map((age) => [age.work, age.oldestSeconds]));
  };
  await until(async () => (await readAges('workflow')).webhooks! > 1);
  expect(await readAges('workflow')).toMatchObject({ sandboxes: 0, images: 0, money: 0, upkeep: 0 });
  expect(await readAges('activity')).toEqual({ sandboxes: 0, webhooks: 0, images: 0, money: 0, upkeep: 0 });
}, 120_000);
