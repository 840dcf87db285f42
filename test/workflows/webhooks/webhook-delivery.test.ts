import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { recordSandboxEvent } from '../../../db/sandboxes/sandbox-events.ts';
import { recordAndClaim } from '../../../db/webhooks/webhook-results.ts';
import type { SandboxId, WebhookEndpointId } from '../../../domain/ids.ts';
import { firstAttemptLimits } from '../../../integrations/webhooks/in-flight.ts';
import { WebhookKeys } from '../../../integrations/webhooks/keys.ts';
import { WebhookSender } from '../../../integrations/webhooks/sender.ts';
import { EncryptionCodec } from '../../../platform/temporal/payload-codec.ts';
import { WebhookRelay } from '../../../worker/webhooks/relay.ts';
import type { Json } from '../../api/contract-client.ts';
import { startApi, type TestApi } from '../../api/test-api.ts';
import { type ControlPlane, startControlPlane } from '../../support/control-plane.ts';
import { currentDetails } from '../../support/current-details.ts';
import { MemoryDriver } from '../../support/memory-driver.ts';
import { recordHistory } from '../../support/recorded-histories.ts';
import { until } from '../../support/until.ts';
import { answerWith, WebhookReceiver } from '../../support/webhook-receiver.ts';

/** Deliveries of events by relays and workflows, through the API, on real Postgres and Temporal. */
const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
let plane: ControlPlane;
let api: TestApi;
let sandboxId: SandboxId;
let receivers: WebhookReceiver[] = [];

beforeAll(async () => {
  plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'pro' });
  plane.webhookRelay.start();
  api = await startApi({
    env: { PLATFORM_OUTBOUND_RANGES: '127.0.0.0/8' },
    on: { orm: plane.orm, account: plane.account, commands: plane.commands },
  });
  // It is idle, so its own events do not come between those of a test.
  const sandbox = await plane.admit({ timeoutSeconds: 3600 });
  await plane.commands.start(sandbox, { wait: true });
  ({ sandboxId } = sandbox);
}, 120_000);
afterAll(async () => {
  await api?.stop();
  await plane?.stop();
});
beforeEach(async () => {
  // Without row locks: the relay may still write results of the test before, in another order than a delete.
  for (const table of ['webhook_endpoints', 'webhook_deliveries']) {
    await plane.orm.em.fork().execute(`truncate ${table}`);
  }
  await plane.orm.em.fork().execute('delete from notifications');
});
afterEach(async () => {
  for (const each of receivers) await each.stop();
  receivers = [];
});

async function receive(...answer: Parameters<typeof WebhookReceiver.start>): Promise<WebhookReceiver> {
  const receiver = await WebhookReceiver.start(...answer);
  receivers.push(receiver);
  return receiver;
}

async function subscribe({ url }: { url: string }, fields: Json = {}): Promise<WebhookEndpointId> {
  const wanted = { url, event_types: ['sandbox.paused'], ...fields };
  return (await api.send(api.root, 'POST', '/v1/webhooks', wanted)).body.data.endpoint_id;
}

/** Records events of the sandbox. @returns their ids */
async function happen(count = 1): Promise<string[]> {
  const em = plane.orm.em.fork();
  const { eventSequence: before } = await em.findOneOrFail(Sandbox, { sandboxId });
  await em.transactional(async (tx) => {
    const sandbox = await tx.findOneOrFail(Sandbox, { sandboxId });
    for (let number = 0; number < count; number += 1) recordSandboxEvent(tx, sandbox, 'sandbox.paused', new Date());
  });
  const rows = (await plane.orm.em
    .fork()
    .execute("select event_id from events where object_id = ? and sequence > ? and type = 'sandbox.paused'", [
      sandboxId,
      before,
    ])) as Json[];
  return rows.map((row) => row.event_id);
}

const readEndpoint = async (endpointId: WebhookEndpointId): Promise<Json> =>
  (await api.send(api.root, 'GET', `/v1/webhooks/${endpointId}`)).body.data;
const listDeliveries = async (endpointId: WebhookEndpointId): Promise<Json[]> =>
  (await api.send(api.root, 'GET', `/v1/webhooks/${endpointId}/deliveries?limit=200`)).body.data.deliveries;
const listStatuses = async (endpointId: WebhookEndpointId) =>
  (await listDeliveries(endpointId)).map(({ status }) => status);

async function untilAll(endpointId: WebhookEndpointId, status: string): Promise<Json[]> {
  await until(async () => {
    const statuses = await listStatuses(endpointId);
    return statuses.length > 0 && statuses.every((each) => each === status);
  });
  return listDeliveries(endpointId);
}

/** The workflow is not started yet. */
function isMissing(error: unknown): false {
  if (error instanceof WorkflowNotFoundError) return false;
  throw error;
}

test('a healthy endpoint gets each event once, signed, and the delivery has the result', async () => {
  const receiver = await receive(answerWith(200, {}, 'thanks'));
  const endpoint = await subscribe(receiver, { secret });
  const [eventId] = await happen();
  const [delivery] = await untilAll(endpoint, 'delivered');
  expect(delivery).toMatchObject({
    ...{ event_id: eventId, event_type: 'sandbox.paused', http_status_code: 200, attempt_number: 1, max_attempts: 4 },
    ...{ next_retry_at: null, delivered_at: expect.any(String), failed_at: null, error_message: null },
    attempts: [expect.objectContaining({ http_status_code: 200, error: null, reply: 'thanks' })],
  });
  const [received] = receiver.received;
  expect(receiver.ids).toEqual([eventId]);
  const body = new Webhook(secret).verify(received!.body, received!.headers) as Json;
  expect(body).toEqual({
    ...{ id: eventId, type: 'sandbox.paused', timestamp: expect.any(String) },
    data: expect.objectContaining({ sandbox_id: sandboxId, sequence: expect.any(Number) }),
  });
  expect(await readEndpoint(endpoint)).toMatchObject({
    ...{ total_deliveries: 1, successful_deliveries: 1, failed_deliveries: 0, last_failure_at: null },
    ...{ last_delivery_at: expect.any(String), last_success_at: expect.any(String) },
  });
});

test('after a failed attempt a workflow delivers the same bytes of the event with the same id', async () => {
  const receiver = await receive((request, response, number) =>
    answerWith(number === 1 ? 500 : 204)(request, response, number),
  );
  const endpoint = await subscribe(receiver);
  const [eventId] = await happen();
  const [delivered] = await untilAll(endpoint, 'delivered');
  const [first, second] = delivered!.attempts;
  expect(first).toMatchObject({ http_status_code: 500, error: 'The endpoint answered 500' });
  expect(second).toMatchObject({ http_status_code: 204, error: null });
  expect(Date.parse(second.started_at) - Date.parse(first.started_at)).toBeGreaterThanOrEqual(4000);
  expect(receiver.ids).toEqual([eventId, eventId]);
  expect(receiver.received[1]!.body).toBe(receiver.received[0]!.body);
  const handle = plane.client.workflow.getHandle(delivered!.delivery_id);
  expect(await handle.result()).toBe('delivered');
  if (process.env.RECORD_HISTORIES === '1') {
    await recordHistory(plane.client, 'webhook-delivery-delivered', delivered!.delivery_id);
  }
  expect(await readEndpoint(endpoint)).toMatchObject({ total_deliveries: 1, successful_deliveries: 1 });
});

test('a delivery without retries left has failed; a resend has all retries again, in a separate workflow', async () => {
  const receiver = await receive(answerWith(500, {}, 'no'));
  const endpoint = await subscribe(receiver, { max_retries: 0 });
  const [eventId] = await happen();
  const [failed] = await untilAll(endpoint, 'failed');
  expect(failed).toMatchObject({ attempt_number: 1, max_attempts: 1, failed_at: expect.any(String) });
  const handle = (name: string) => plane.client.workflow.getHandle(name);
  await expect(handle(failed!.delivery_id).describe()).rejects.toThrow('not found');

  const url = `/v1/webhooks/${endpoint}`;
  await api.send(api.root, 'PUT', url, { max_retries: 1 });
  await api.send(api.root, 'POST', `${url}/deliveries/${failed!.delivery_id}/redeliver`);
  await until(async () => (await listDeliveries(endpoint))[0]!.attempt_number === 3);
  const [again] = await untilAll(endpoint, 'failed');
  expect(again).toMatchObject({ attempt_number: 3, max_attempts: 3 });
  expect(again!.attempts).toHaveLength(3);
  expect(receiver.ids).toEqual([eventId, eventId, eventId]);
  const workflowId = `${failed!.delivery_id}/2`;
  expect(await handle(workflowId).result()).toBe('failed');
  const { events } = await handle(workflowId).fetchHistory();
  const [completed] = events!.flatMap((each) => each.activityTaskCompletedEventAttributes ?? []);
  const codec = new EncryptionCodec(plane.secrets);
  const [attempted] = await codec.decode(completed!.result!.payloads as Payload[]);
  const reason = 'The endpoint answered 500';
  expect(JSON.parse(Buffer.from(attempted!.data!).toString())).toEqual({ status: 'failed', error: reason });
  expect(await currentDetails(handle(workflowId))).toBe(`failed; the last one failed: ${reason}`);
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'webhook-delivery-failed', workflowId);
  expect(await readEndpoint(endpoint)).toMatchObject({ total_deliveries: 2, failed_deliveries: 2 });
});

test('a delivery that an operator cancels in the Temporal Web UI has failed, and can be sent again', async () => {
  const receiver = await receive((request, response, number) =>
    answerWith(number === 1 ? 500 : 204, { 'retry-after': '600' })(request, response, number),
  );
  const endpoint = await subscribe(receiver);
  await happen();
  const [{ delivery_id: id }] = (await untilAll(endpoint, 'retrying')) as [Json];
  const handle = plane.client.workflow.getHandle(id);
  // The relay starts it.
  await until(() => handle.cancel().then(() => true, isMissing));
  expect(await handle.result()).toBe('failed');
  const [failed] = await listDeliveries(endpoint);
  expect(failed).toMatchObject({
    ...{ status: 'failed', attempt_number: 1, next_retry_at: null, failed_at: expect.any(String) },
    error_message: 'The delivery was cancelled by an operator',
  });
  await api.send(api.root, 'POST', `/v1/webhooks/${endpoint}/deliveries/${id}/redeliver`);
  await untilAll(endpoint, 'delivered');
  if (process.env.RECORD_HISTORIES === '1') await recordHistory(plane.client, 'webhook-delivery-cancelled', id);
});

test('retries follow changes of their endpoint, and end with it', async () => {
  // The time for changes before the next attempt.
  const later = answerWith(500, { 'retry-after': '8' });
  const [moving, target, impatient, deleted] = [
    await receive(later),
    await receive(),
    await receive(later),
    await receive(later),
  ];
  const [moved, fewer, gone] = [await subscribe(moving), await subscribe(impatient), await subscribe(deleted)];
  const [eventId] = await happen();
  const [first] = await untilAll(moved, 'retrying');
  expect(first).toMatchObject({
    ...{ attempt_number: 1, max_attempts: 4, http_status_code: 500, error_message: 'The endpoint answered 500' },
    ...{ next_retry_at: expect.any(String), delivered_at: null, failed_at: null },
  });
  await untilAll(fewer, 'retrying');
  const [last] = await untilAll(gone, 'retrying');
  await api.send(api.root, 'PUT', `/v1/webhooks/${moved}`, { url: target.url });
  await api.send(api.root, 'PUT', `/v1/webhooks/${fewer}`, { max_retries: 0 });
  await api.send(api.root, 'DELETE', `/v1/webhooks/${gone}`);
  expect((await untilAll(moved, 'delivered'))[0]).toMatchObject({ attempt_number: 2, next_retry_at: null });
  expect([moving.ids, target.ids]).toEqual([[eventId], [eventId]]);
  expect((await untilAll(fewer, 'failed'))[0]).toMatchObject({ max_attempts: 1, failed_at: expect.any(String) });
  expect(await plane.client.workflow.getHandle(last!.delivery_id).result()).toBe('failed');
  expect(deleted.ids).toEqual([eventId]);
});

test('Retry-After delays the next attempt', async () => {
  const receiver = await receive(answerWith(503, { 'retry-after': '3600' }));
  const endpoint = await subscribe(receiver);
  await happen();
  const [waiting] = await untilAll(endpoint, 'retrying');
  const waitMs = Date.parse(waiting!.next_retry_at) - Date.parse(waiting!.attempts[0].started_at);
  expect(waitMs).toBeGreaterThanOrEqual(3_600_000);
  expect(waitMs).toBeLessThan(3_700_000);
});

test('all retries of a delivery are tries of one activity, and Temporal waits as long as the receiver asks', async () => {
  const waits = ['0', '1', '3600'];
  const receiver = await receive((request, response, number) =>
    answerWith(503, { 'retry-after': waits[number - 1]! })(request, response, number),
  );
  const endpoint = await subscribe(receiver);
  await happen();
  await until(async () => (await listDeliveries(endpoint))[0]?.attempt_number === 3, 60_000);
  const [waiting] = await untilAll(endpoint, 'retrying');
  const { raw } = await plane.client.workflow.getHandle(waiting!.delivery_id).describe();
  const [activity, ...others] = raw.pendingActivities!;
  expect(others).toEqual([]);
  const nextAtMs = Number(activity!.nextAttemptScheduleTime!.seconds) * 1000;
  expect(Math.abs(nextAtMs - Date.parse(waiting!.next_retry_at))).toBeLessThan(10_000);
});

const notifications = async () =>
  (await plane.orm.em
    .fork()
    .execute("select user_id, related_entity_id from notifications where type = 'webhook_disabled'")) as Json[];

test('410 disables the endpoint at once, with a notification, and ends its waiting deliveries', async () => {
  const receiver = await receive(answerWith(500));
  const endpoint = await subscribe(receiver);
  const [olderId] = await happen();
  await untilAll(endpoint, 'retrying');
  // The same if it is tried again before the other event has arrived.
  receiver.answer = (request, response, number) =>
    answerWith(request.id === olderId ? 500 : 410)(request, response, number);
  await happen();
  await until(async () => !(await readEndpoint(endpoint)).is_active);
  expect(await readEndpoint(endpoint)).toMatchObject({ disabled_reason: 'gone' });
  expect(await notifications()).toEqual([{ user_id: plane.account.userId, related_entity_id: endpoint }]);
  await untilAll(endpoint, 'failed');
  const [newer, older] = await listDeliveries(endpoint);
  expect(newer!.error_message).toBe('The endpoint answered 410: it is gone');
  expect(older!.attempt_number).toBeGreaterThanOrEqual(1);
  const count = receiver.received.length;
  await happen();
  expect(await listDeliveries(endpoint)).toHaveLength(2);
  expect(receiver.received).toHaveLength(count);
});

test('an endpoint that only failed for five days is disabled; one that succeeded in between is not', async () => {
  const receiver = await receive(answerWith(500));
  const endpoint = await subscribe(receiver, { scope: 'account', max_retries: 0 });
  const failSince = (days: number) =>
    plane.orm.em
      .fork()
      .execute(`update webhook_endpoints set failing_since = now() - interval '${days} days' where endpoint_id = ?`, [
        endpoint,
      ]);
  await happen();
  await untilAll(endpoint, 'failed');
  await failSince(4);
  await happen();
  await until(async () => (await readEndpoint(endpoint)).failed_deliveries === 2);
  expect((await readEndpoint(endpoint)).is_active).toBe(true);
  await failSince(6);
  receiver.answer = answerWith(200);
  await happen();
  await until(async () => (await readEndpoint(endpoint)).successful_deliveries === 1);
  receiver.answer = answerWith(500);
  await happen();
  await until(async () => (await readEndpoint(endpoint)).failed_deliveries === 3);
  expect((await readEndpoint(endpoint)).is_active).toBe(true);
  await failSince(6);
  await happen();
  await until(async () => !(await readEndpoint(endpoint)).is_active);
  expect(await readEndpoint(endpoint)).toMatchObject({ disabled_reason: 'failing', failed_deliveries: 4 });
  expect(await notifications()).toEqual([{ user_id: plane.account.userId, related_entity_id: endpoint }]);
});

async function failFiveTimes(endpoint: WebhookEndpointId): Promise<void> {
  for (let number = 1; number <= 5; number += 1) {
    await happen();
    await until(async () => (await readEndpoint(endpoint)).failed_deliveries === number);
  }
}

test('after five failures in a row workflows make the first attempts, until one succeeds', async () => {
  const receiver = await receive(answerWith(500));
  const endpoint = await subscribe(receiver, { max_retries: 0 });
  await failFiveTimes(endpoint);
  receiver.answer = answerWith(200);
  const wasWorkflow = async () => {
    await happen();
    const [delivery] = await listDeliveries(endpoint);
    await until(async () => (await listDeliveries(endpoint))[0]!.status === 'delivered');
    const found = plane.client.workflow.getHandle(delivery!.delivery_id).describe();
    return found.then(
      () => true,
      () => false,
    );
  };
  expect([await wasWorkflow(), await wasWorkflow()]).toEqual([true, false]);
});

test('an endpoint that works again gets what waited for a workflow from the relay, once', async () => {
  const receiver = await receive(answerWith(500));
  const endpoint = await subscribe(receiver, { max_retries: 0 });
  await failFiveTimes(endpoint);
  receiver.answer = answerWith(200);
  const waiting = await happen(150);
  await until(async () => (await readEndpoint(endpoint)).successful_deliveries === waiting.length);
  const ids = receiver.ids.filter((id) => waiting.includes(id));
  expect(ids.toSorted()).toEqual(waiting.toSorted());
  const started = await Promise.all(
    (await listDeliveries(endpoint)).map(({ delivery_id: id }) =>
      plane.client.workflow
        .getHandle(id)
        .describe()
        .then(() => true, isMissing),
    ),
  );
  expect(started.filter(Boolean).length).toBeLessThan(waiting.length / 2);
});

test('an endpoint that works again does not get what a workflow may have begun from a relay', async () => {
  const receiver = await receive(answerWith(500));
  const endpoint = await subscribe(receiver, { max_retries: 0 });
  await failFiveTimes(endpoint);
  const waiting = await happen(60);
  const change = async (how: string) => (await plane.orm.em.fork().execute(how)) as Json[];
  // As if a relay of the outbox had taken it, and not started the workflow yet.
  const taken: Json[] = [];
  await until(async () => {
    taken.push(
      ...(await change(`update outbox set attempts = 1, not_before = now() + interval '1 hour' where id =
        (select max(id) from outbox where workflow_type = 'webhookDelivery' and attempts = 0) returning workflow_id`)),
    );
    return taken.length > 0;
  });
  receiver.answer = answerWith(200);
  const isOther = ({ delivery_id: id }: Json) => id !== taken[0]!.workflow_id;
  const ended = async () =>
    (await listDeliveries(endpoint)).filter(isOther).every(({ status }) => ['delivered', 'failed'].includes(status));
  await until(async () => (await listDeliveries(endpoint)).length === waiting.length + 5 && (await ended()));
  expect((await listDeliveries(endpoint)).filter(({ status }) => status === 'pending').length).toBe(1);
  await change('update outbox set not_before = now()');
  await until(
    async () =>
      (await readEndpoint(endpoint)).last_success_at !== null &&
      (await listStatuses(endpoint)).every((each) => each !== 'pending'),
  );
});

test('an endpoint that never answers has few open requests, and another one still gets all of its events', async () => {
  const [silent, healthy] = [await receive(() => {}), await receive()];
  const slow = await subscribe(silent, { timeout_seconds: 300 });
  const fast = await subscribe(healthy);
  const ids = [...(await happen(200)), ...(await happen(200))];
  await until(() => healthy.distinctIds.length >= ids.length);
  expect(healthy.distinctIds.sort()).toEqual([...ids].sort());
  expect(silent.maxOpen).toBeLessThanOrEqual(firstAttemptLimits.perEndpoint + 8);
  await until(async () => (await readEndpoint(fast)).successful_deliveries === ids.length);
  expect(await listStatuses(slow)).not.toContain('delivered');
});

test('while results cannot be recorded, requests stop at the limit of those in flight', async () => {
  const receiver = await receive();
  const endpoint = await subscribe(receiver);
  const ids = await plane.orm.em.fork().transactional(async (tx) => {
    // Each write of results waits for this lock.
    await tx.execute('select 1 from webhook_endpoints where endpoint_id = ? for update', [endpoint]);
    const happened = await happen(3 * firstAttemptLimits.perEndpoint);
    await until(() => receiver.distinctIds.length >= firstAttemptLimits.perEndpoint);
    // Longer than the relay's pause between two rounds.
    await delay(1500);
    expect(receiver.distinctIds).toHaveLength(firstAttemptLimits.perEndpoint);
    return happened;
  });
  await untilAll(endpoint, 'delivered');
  expect(receiver.distinctIds.sort()).toEqual([...ids].sort());
});

test('a delivery of a dead relay is made by another after its lease; two relays share the work', async () => {
  const receiver = await receive();
  const { orm, secrets } = plane;
  await plane.webhookRelay.stop();
  const endpoint = await subscribe(receiver);
  const ids = await happen(100);
  const claimed = await recordAndClaim(orm.em, [], {
    ...{ holder: 'relay-dead', limit: 10, perEndpoint: 10, perAccount: 10 },
    freeSlots: { endpoints: new Map(), accounts: new Map() },
  });
  expect(claimed).toHaveLength(10);
  const lease = (until: string) =>
    orm.em.fork().execute(`update webhook_deliveries set relay_at = ${until} where holder = 'relay-dead'`);
  await lease("now() + interval '1 hour'");
  const webhooks = {
    keys: new WebhookKeys(secrets),
    sender: new WebhookSender({
      allowedRanges: ['127.0.0.0/8'],
      ownServices: async () => [],
      sandboxNetworks: async () => [],
    }),
  };
  const databaseUrl = orm.config.get('clientUrl')!;
  const relays = [1, 2].map(() => new WebhookRelay({ orm, databaseUrl, webhooks, logger: pino({ level: 'silent' }) }));
  for (const relay of relays) relay.start();
  try {
    await until(() => receiver.distinctIds.length === 90);
    expect(await listStatuses(endpoint)).toContain('delivering');
    await lease('now()');
    await untilAll(endpoint, 'delivered');
    expect(receiver.distinctIds.sort()).toEqual([...ids].sort());
  } finally {
    for (const relay of relays) await relay.stop();
    await webhooks.sender.close();
  }
});

test('a relay takes deliveries from the endpoints in turn, even if one endpoint could fill the account’s share', async () => {
  await plane.webhookRelay.stop();
  const endpoints = [
    await subscribe(await receive()),
    await subscribe(await receive()),
    await subscribe(await receive()),
  ];
  await happen(50);
  const claimed = await recordAndClaim(plane.orm.em, [], {
    ...{ holder: 'relay-1', limit: 256, perEndpoint: 64, perAccount: 30 },
    freeSlots: { endpoints: new Map([[endpoints[0]!, 4]]), accounts: new Map() },
  });
  const taken = endpoints.map((id) => claimed.filter(({ endpointId }) => endpointId === id).length);
  expect(taken).toEqual([4, 13, 13]);
});
