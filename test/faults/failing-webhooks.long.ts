import { expect, test } from '@jest/globals';
import { inTurn, summarize, timed } from '../../bench/statistics.ts';
import { createAccount } from '../../db/accounts/accounts.ts';
import { recordEvent } from '../../db/core/events.ts';
import { newId } from '../../db/core/new-id.ts';
import { WebhookEndpoint } from '../../db/webhooks/webhook-endpoint.entity.ts';
import type { AccountId } from '../../domain/ids.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { withPlatform } from './with-platform.ts';

/** The creates of one account while the endpoints of another one refuse all connections. */
const endpoints = 8;
const eventsOfRound = 250;
const creates = Number(process.env.CREATES ?? 20);
const rounds = 2;
/**
 * The goal is 1.2, and 1.13 was measured on two cores that do nothing else. With a timer and two workflow tasks for
 * each attempt the ratio is 2.2. In one queue with deliveries, a create takes minutes.
 */
const maxRatio = 2;

let platform: FaultyPlatform;
withPlatform(
  (started) => {
    platform = started;
  },
  { PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8', PLATFORM_WARM_POOL_SIZE: '2' },
);

test('2,000 failing deliveries of an account do not delay the creates of another one', async () => {
  const em = platform.orm.em.fork();
  const { accountId } = await createAccount(em, {
    ...{ email: 'failing@example.com', displayName: 'Failing', planName: 'pro', role: 'user' },
  });
  for (let number = 0; number < endpoints; number += 1) {
    em.create(WebhookEndpoint, {
      ...{ endpointId: newId('webhookEndpoint'), accountId, userId: null, publicKey: 'whpk_' },
      ...{ url: `http://127.0.0.1:${await freePort()}/`, eventTypes: ['template.*'] },
    });
  }
  await em.flush();
  await inTurn(5, create);
  const alone: number[] = [];
  const beside: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    alone.push(...(await inTurn(creates, create)));
    const before = await attempts();
    await fail(accountId);
    await until(async () => (await attempts()) > before, 60_000);
    beside.push(...(await inTurn(creates, create)));
    console.log(
      `round ${round}: ${(await attempts()) - before} attempts meanwhile; ${beside.map(Math.round).join(' ')}`,
    );
    await calm();
  }
  const [without, during] = [summarize(alone), summarize(beside)];
  const ratio = during.p50 / without.p50;
  console.log(
    `creates: ${Math.round(without.p50)} ms alone (most ${Math.round(without.max)}), ` +
      `${Math.round(during.p50)} ms beside failing deliveries (most ${Math.round(during.max)}); ratio ${ratio.toFixed(2)}`,
  );
  expect(ratio).toBeLessThan(maxRatio);
}, 1_200_000);

async function create(): Promise<number> {
  let sandboxId: Awaited<ReturnType<typeof platform.api.createSandbox>>['sandbox_id'];
  const ms = await timed(async () => {
    ({ sandbox_id: sandboxId } = await platform.api.createSandbox({ template: 'base', timeout: 3600 }));
  });
  await platform.api.deleteSandbox(sandboxId!);
  return ms;
}

async function fail(accountId: AccountId): Promise<void> {
  const object = { objectId: newId('template'), accountId, userId: null };
  await platform.orm.em.fork().transactional(async (tx) => {
    for (let number = 0; number < eventsOfRound; number += 1) await recordEvent(tx, object, 'template.uploaded', {});
  });
}

const count = async (what: string) => Number((await platform.rows<{ n: string }>(what))[0]!.n);
const attempts = () => count('select coalesce(sum(attempt_number), 0) as n from webhook_deliveries');

/** Ends all deliveries, so that the next creates are alone. Their own retries would take minutes. */
async function calm(): Promise<void> {
  const em = platform.orm.em.fork();
  const { workflow } = platform.temporal;
  await until(async () => {
    await em.execute('delete from webhook_deliveries');
    await em.execute("delete from outbox where workflow_type = 'webhookDelivery'");
    const query = "WorkflowType = 'webhookDelivery' and ExecutionStatus = 'Running'";
    const ended: Promise<unknown>[] = [];
    for await (const { workflowId } of workflow.list({ query })) ended.push(workflow.getHandle(workflowId).terminate());
    // Some end by themselves meanwhile.
    await Promise.allSettled(ended);
    return ended.length === 0;
  }, 120_000);
}
