import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { newId } from '../../db/new-id.ts';
import { ledgerSums } from '../../db/repositories/ledger.ts';
import { keepPaymentIntent, recordCharge } from '../../db/repositories/payment-intents.ts';
import { findCustomer, findDefaultMethod } from '../../db/repositories/payment-methods.ts';
import { outcomeOf } from '../../domain/billing/payments.ts';
import { PaymentProcessor, ProcessorUnavailableError } from '../../payments/processor.ts';
import { cards, type Notice, TestProcessor } from '../support/payment-processor.ts';
import type { Json, Reply } from './contract-client.ts';
import { type Caller, startApi, type TestApi } from './test-api.ts';

let processor: TestProcessor;
let api: TestApi;
let address: string;
let root: Caller;

beforeAll(async () => {
  processor = await TestProcessor.start();
  api = await startApi({ env: { ...processor.env, PLATFORM_RATE_LIMIT_PER_ADDRESS: '0' } });
  address = await api.app.listen({ host: '127.0.0.1', port: 0 });
});
beforeEach(async () => {
  root = await api.addAccount();
});
afterAll(async () => {
  await api.stop();
  await processor.stop();
});

const methods = async (of = root): Promise<Json[]> =>
  (await api.send(of, 'GET', '/v1/payment/methods')).body.data.payment_methods;
const check = (setup: Json, of = root): Promise<Reply> =>
  api.send(of, 'POST', '/v1/payment/methods/check-status', { setup_intent_id: setup.setup_intent_id });
const setUp = async (of = root): Promise<Json> =>
  (await api.send(of, 'POST', '/v1/payment/methods/setup-intent')).body.data;
const eventsOf = async (accountId: string): Promise<string[]> => {
  const rows = (await api.orm.em
    .fork()
    .execute('select type from events where account_id = ? order by created_at, event_id', [accountId])) as {
    type: string;
  }[];
  return rows.map(({ type }) => type);
};

async function addCard(number: string, of = root): Promise<Json> {
  const setup = await setUp(of);
  await processor.addCard(setup, number);
  return (await check(setup, of)).body.data.method;
}

/** Delivers a notification as the processor does. */
async function deliver({
  body,
  signature,
}: Pick<Notice, 'body' | 'signature'>): Promise<{ status: number; body: Json }> {
  const reply = await fetch(`${address}/v1/payment/processor-webhook`, {
    method: 'POST',
    headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': signature },
    body,
  });
  return { status: reply.status, body: await reply.json() };
}

test('a browser gets the public key, and nothing of the secret one', async () => {
  const reply = await api.send(null, 'GET', '/v1/config/payment-processor');
  expect(reply.body.data).toEqual({ publishable_key: processor.publishableKey, test_mode: true });
});

test('a card is added, and kept with no more than may be stored', async () => {
  expect((await api.send(root, 'GET', '/v1/payment/methods/status')).body.data.has_payment_methods).toBe(false);
  const setup = await setUp();
  const pending = await check(setup);
  expect(pending.body).toMatchObject({ data: { processed: false, method: null }, message: expect.any(String) });
  await processor.addCard(setup, cards.good);
  const { data } = (await check(setup)).body;
  expect(data).toEqual({
    processed: true,
    method: { payment_method_id: expect.stringMatching(/^pm_/), last4: '4242', brand: 'visa', is_verified: true },
  });
  const [method] = await methods();
  expect(method).toMatchObject({
    ...{
      account_id: root.accountId,
      last4: '4242',
      exp_month: 12,
      exp_year: 2040,
      is_default: true,
      is_verified: true,
    },
    setup_intent_id: setup.setup_intent_id,
  });
  const user = await api.addUser(root);
  expect((await api.send(user, 'GET', '/v1/payment/methods/status')).body.data.has_payment_methods).toBe(true);
  expect(await eventsOf(root.accountId)).toEqual(['payment.method_attached']);
  const rows = JSON.stringify(
    await Promise.all(
      ['payment_methods', 'payment_setups', 'payment_customers', 'events', 'audit_events', 'idempotency_keys'].map(
        (table) => api.orm.em.fork().execute(`select * from ${table}`),
      ),
    ),
  );
  for (const secret of [cards.good, setup.client_secret, processor.secretKey, processor.webhookSecret]) {
    expect(rows).not.toContain(secret);
    expect(api.log.join('\n')).not.toContain(secret);
  }
});

test('the question and many copies of the notification at the same time keep one card and send one event', async () => {
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  const replies = await Promise.all([
    ...Array.from({ length: 5 }, () => deliver(notice)),
    ...Array.from({ length: 5 }, () => check(setup)),
  ]);
  expect(replies.map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(await methods()).toHaveLength(1);
  expect(await eventsOf(root.accountId)).toEqual(['payment.method_attached']);
});

test('the notification alone is enough', async () => {
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  expect((await deliver(notice)).status).toBe(200);
  expect(await methods()).toHaveLength(1);
});

test.each([
  ['is declined', cards.declined],
  ['asks for its owner, who has not answered yet', cards.asksForOwner],
])('a card that %s is not kept', async (_what, number) => {
  const setup = await setUp();
  await processor.addCard(setup, number);
  expect((await check(setup)).body.data).toEqual({ processed: false, method: null });
  expect(await methods()).toEqual([]);
});

test('a card that somebody else began to add cannot be asked for', async () => {
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  const stranger = await api.addAccount();
  expect((await check(setup, stranger)).status).toBe(404);
  expect((await check({ setup_intent_id: 'seti_unknown' })).status).toBe(404);
  expect(await methods(stranger)).toEqual([]);
});

test('the first card is the default; another can be chosen, and takes over when the default is removed', async () => {
  const first = await addCard(cards.good);
  const second = await addCard(cards.otherGood);
  const defaults = async () =>
    (await methods()).filter((each) => each.is_default).map((each) => each.payment_method_id);
  expect(await defaults()).toEqual([first.payment_method_id]);
  const chosen = await api.send(root, 'POST', '/v1/payment/methods/set-default', second);
  expect(chosen.body.data).toMatchObject({ payment_method_id: second.payment_method_id, is_default: true });
  expect(await defaults()).toEqual([second.payment_method_id]);
  // Choosing it again changes nothing.
  await api.send(root, 'POST', '/v1/payment/methods/set-default', second);
  expect(await defaults()).toEqual([second.payment_method_id]);
  const [{ id }] = (await methods()).filter((each) => each.is_default);
  expect((await api.send(root, 'DELETE', `/v1/payment/methods/${id}`)).status).toBe(200);
  expect(await defaults()).toEqual([first.payment_method_id]);
  expect((await processor.get(`/v1/payment_methods/${second.payment_method_id}`)).customer).toBeNull();
  expect((await api.send(root, 'DELETE', `/v1/payment/methods/${id}`)).status).toBe(404);
  const gone = await api.send(root, 'POST', '/v1/payment/methods/set-default', second);
  expect([gone.status, gone.body.code]).toEqual([404, 'not_found']);
  expect(await eventsOf(root.accountId)).toEqual([
    ...['payment.method_attached', 'payment.method_attached', 'payment.method_detached'],
  ]);
});

test('a card that was removed at the processor is removed here', async () => {
  const card = await addCard(cards.good);
  await processor.get(`/v1/payment_methods/${card.payment_method_id}`);
  const attached = processor.sign('payment_method.detached', { id: card.payment_method_id, customer: null });
  // The notification says so, and the processor does not: it may be late, and the card attached again.
  expect((await deliver(attached)).status).toBe(200);
  expect(await methods()).toHaveLength(1);
  const direct = PaymentProcessor.of(api.settings)!;
  await direct.detachMethod(card.payment_method_id);
  await direct.detachMethod(card.payment_method_id);
  const detached = await processor.notice('payment_method.detached', card.payment_method_id);
  expect((await deliver(detached)).status).toBe(200);
  expect(await methods()).toEqual([]);
});

test("nobody reaches another account's card", async () => {
  const card = await addCard(cards.good);
  const stranger = await api.addAccount();
  for (const [method, url, body] of [
    ['DELETE', `/v1/payment/methods/${card.payment_method_id}`, undefined],
    ['POST', '/v1/payment/methods/set-default', { payment_method_id: card.payment_method_id }],
  ] as const) {
    expect((await api.send(stranger, method, url, body)).status).toBe(404);
  }
  const user = await api.addUser(root);
  expect((await api.send(user, 'GET', '/v1/payment/methods')).body.code).toBe('root_required');
  expect(await methods()).toHaveLength(1);
});

describe('forged notifications', () => {
  const now = () => Math.floor(Date.now() / 1000);
  const good = () => processor.sign('setup_intent.succeeded', { id: 'seti_unknown' });
  test.each<[string, () => Pick<Notice, 'body' | 'signature'>]>([
    ['without a signature', () => ({ ...good(), signature: '' })],
    ['with a signature that is none', () => ({ ...good(), signature: 't=1,v1=00' })],
    ['with the signature of another body', () => ({ ...good(), body: good().body })],
    ['with another secret', () => processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now(), 'whsec_other')],
    ['signed an hour ago', () => processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now() - 3600)],
    [
      'with a new time beside an old signature',
      () => {
        const { body, signature } = processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now() - 3600);
        return { body, signature: signature.replace(/t=\d+/, `t=${now()}`) };
      },
    ],
    ['with one byte more', () => ({ ...good(), body: `${good().body} ` })],
    ['with a body that is no JSON', () => ({ ...good(), body: 'seti' })],
    ['without a body', () => ({ ...good(), body: '' })],
  ])('%s are refused', async (_what, make) => {
    const before = processor.requests.length;
    const { status, body } = await deliver(make());
    expect([status, body.code]).toEqual([400, 'invalid_signature']);
    // Nobody makes the platform ask the processor.
    expect(processor.requests).toHaveLength(before);
  });

  test('a right one about something unknown is taken, and changes nothing', async () => {
    expect((await deliver(good())).status).toBe(200);
    const unknown = processor.sign('customer.created', { id: 'cus_1' });
    expect((await deliver(unknown)).status).toBe(200);
  });
});

test('a processor that does not answer is 503, and what was asked can be asked again', async () => {
  processor.failNext(/POST \/v1\/customers/, 'unanswered');
  const failed = await api.send(root, 'POST', '/v1/payment/methods/setup-intent');
  expect([failed.status, failed.body.code, String(failed.headers['retry-after'])]).toEqual([
    ...[503, 'payment_processor_unavailable', '10'],
  ]);
  await setUp();
  // The customer that was made by the lost reply is the one that is used.
  const { data } = await processor.get('/v1/customers?limit=100');
  expect(data.filter((each: Json) => each.metadata.account_id === root.accountId)).toHaveLength(1);
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  processor.failNext(/GET \/v1\/setup_intents/, 'lost');
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  expect((await deliver(notice)).status).toBe(503);
  expect((await deliver(notice)).status).toBe(200);
  expect(await methods()).toHaveLength(1);
});

test('an account begins to add 20 cards at most', async () => {
  for (let i = 0; i < 20; i++) await setUp();
  const refused = await api.send(root, 'POST', '/v1/payment/methods/setup-intent');
  expect([refused.status, refused.body.code]).toEqual([429, 'too_many_requests']);
});

test('a platform without a processor answers 503 on its routes, and works otherwise', async () => {
  const without = await startApi();
  for (const [method, url, body] of [
    ['GET', '/v1/config/payment-processor', undefined],
    ['GET', '/v1/payment/methods', undefined],
    ['GET', '/v1/payment/methods/status', undefined],
    ['POST', '/v1/payment/methods/setup-intent', undefined],
    ['POST', '/v1/payment/methods/check-status', { setup_intent_id: 'seti_1' }],
    ['POST', '/v1/payment/methods/set-default', { payment_method_id: 'pm_1' }],
    ['DELETE', '/v1/payment/methods/pm_1', undefined],
    ['GET', '/v1/payment/intents', undefined],
    ['GET', '/v1/payment/intents/pi_1', undefined],
    ['POST', '/v1/payment/processor-webhook', {}],
  ] as const) {
    const reply = await without.send(without.root, method, url, body);
    expect([url, reply.status, reply.body.code]).toEqual([url, 503, 'payments_not_configured']);
  }
  expect((await without.send(without.root, 'POST', '/v1/sandboxes', {})).status).toBe(201);
  await without.stop();
});

describe('a charge', () => {
  let direct: PaymentProcessor;
  beforeAll(() => {
    direct = PaymentProcessor.of(api.settings)!;
  });

  /** Prepares a charge of 12.34 USD for an invoice, as often as it is called. */
  async function prepare(invoiceId: string) {
    const { paymentMethodId } = (await findDefaultMethod(api.orm.em, root.accountId))!;
    const charge = await direct.prepareCharge({
      key: `charge ${invoiceId}`,
      customerId: (await findCustomer(api.orm.em, root.accountId))!,
      paymentMethodId,
      ...{ amount: '12.34', currency: 'USD', metadata: { invoice_id: invoiceId } },
    });
    const { paymentIntentId, amount, currency, status } = charge;
    const kept = { paymentIntentId, paymentMethodId, amount, currency, status };
    await keepPaymentIntent(api.orm.em, { ...kept, accountId: root.accountId, intentType: 'invoice', invoiceId });
    return { paymentIntentId, paymentMethodId };
  }
  const moved = async (paymentIntentId: string) =>
    (await processor.charges()).filter((charge) => charge.payment_intent === paymentIntentId);
  const intent = async (id: string) => (await api.send(root, 'GET', `/v1/payment/intents/${id}`)).body.data;
  const sums = async () =>
    Object.fromEntries(
      (await ledgerSums(api.orm.em.fork(), root.accountId)).map(({ ledgerAccount, sum }) => [
        ledgerAccount,
        Number(sum),
      ]),
    );

  test('that succeeds is booked once, however often it is reported', async () => {
    await addCard(cards.good);
    const invoiceId = newId('invoice');
    const { paymentIntentId, paymentMethodId } = await prepare(invoiceId);
    expect((await prepare(invoiceId)).paymentIntentId).toBe(paymentIntentId);
    expect(await moved(paymentIntentId)).toHaveLength(0);
    expect(await intent(paymentIntentId)).toMatchObject({
      status: 'requires_confirmation',
      amount: 12.34,
      currency: 'USD',
    });
    const charge = await direct.confirmCharge({ key: 'attempt 1', paymentIntentId, paymentMethodId });
    expect(outcomeOf(charge.status)).toBe('succeeded');
    const notice = await processor.notice('payment_intent.succeeded', paymentIntentId);
    await Promise.all([
      recordCharge(api.orm.em, charge),
      deliver(notice),
      deliver(notice),
      recordCharge(api.orm.em, charge),
    ]);
    expect(await sums()).toEqual({ cash: 12.34, receivable: -12.34 });
    expect(await eventsOf(root.accountId)).toEqual(['payment.method_attached', 'payment.succeeded']);
    expect(await moved(paymentIntentId)).toHaveLength(1);
    // Told late: what the processor said earlier.
    await recordCharge(api.orm.em, { ...charge, status: 'requires_payment_method', failureReason: 'card_declined' });
    expect(await intent(paymentIntentId)).toMatchObject({ status: 'succeeded', failure_reason: null });
    const stranger = await api.addAccount();
    expect((await api.send(stranger, 'GET', `/v1/payment/intents/${paymentIntentId}`)).status).toBe(404);
    const { payment_intents: listed } = (await api.send(root, 'GET', '/v1/payment/intents?type=invoice')).body.data;
    expect(listed).toEqual([await intent(paymentIntentId)]);
    expect((await api.send(root, 'GET', '/v1/payment/intents?type=other')).body.data.payment_intents).toEqual([]);
  });

  test('whose reply is lost has an unknown outcome, and is found to have moved the money once', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    processor.failNext(/confirm$/, 'unanswered');
    const attempt = { key: `lost ${paymentIntentId}`, paymentIntentId, paymentMethodId };
    await expect(direct.confirmCharge(attempt)).rejects.toBeInstanceOf(ProcessorUnavailableError);
    expect(outcomeOf((await direct.readCharge(paymentIntentId)).status)).toBe('succeeded');
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    // Also when the processor has forgotten the key.
    processor.forgetKeys();
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('whose request is lost has moved nothing, and the next attempt does', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    processor.failNext(/confirm$/, 'lost');
    const attempt = { key: `lost ${paymentIntentId}`, paymentIntentId, paymentMethodId };
    await expect(direct.confirmCharge(attempt)).rejects.toBeInstanceOf(ProcessorUnavailableError);
    expect(outcomeOf((await direct.readCharge(paymentIntentId)).status)).toBe('unknown');
    expect(await moved(paymentIntentId)).toHaveLength(0);
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('that is declined has failed, and succeeds with another card as the same charge', async () => {
    await addCard(cards.declinedLater);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const declined = await direct.confirmCharge({ key: `first ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect([outcomeOf(declined.status), declined.failureReason]).toEqual(['failed', 'card_declined']);
    await recordCharge(api.orm.em, declined);
    await recordCharge(api.orm.em, declined);
    expect(await intent(paymentIntentId)).toMatchObject({
      status: 'requires_payment_method',
      failure_reason: 'card_declined',
    });
    const other = await addCard(cards.good);
    const attempt = { key: `second ${paymentIntentId}`, paymentIntentId, paymentMethodId: other.payment_method_id };
    const charge = await direct.confirmCharge(attempt);
    expect(charge.status).toBe('succeeded');
    await recordCharge(api.orm.em, charge);
    expect(await moved(paymentIntentId)).toHaveLength(1);
    expect(await eventsOf(root.accountId)).toEqual([
      ...['payment.method_attached', 'payment.failed', 'payment.method_attached', 'payment.succeeded'],
    ]);
  });

  test('whose card asks for its owner has failed', async () => {
    const card = await addCard(cards.good);
    const { paymentIntentId } = await prepare(newId('invoice'));
    const setup = await setUp();
    await processor.addCard(setup, cards.asksForOwner);
    const { payment_method: paymentMethodId } = await processor.get(`/v1/setup_intents/${setup.setup_intent_id}`);
    expect(paymentMethodId).not.toBe(card.payment_method_id);
    const charge = await direct.confirmCharge({ key: `owner ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect([charge.status, outcomeOf(charge.status)]).toEqual(['requires_action', 'failed']);
    expect(await moved(paymentIntentId)).toHaveLength(0);
  });

  test('that is refunded at the processor is booked by how much, once', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const charge = await direct.confirmCharge({ key: `r ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    await recordCharge(api.orm.em, charge);
    for (const amountRefunded of ['2.00', '2.00', '5.00', '2.00'])
      await recordCharge(api.orm.em, { ...charge, amountRefunded });
    expect(await sums()).toEqual({ cash: 7.34, receivable: -12.34, revenue: 5 });
    expect(await intent(paymentIntentId)).toMatchObject({ amount_refunded: 5 });
    expect((await eventsOf(root.accountId)).filter((type) => type === 'payment.refunded')).toHaveLength(2);
  });

  test('that is cancelled moves nothing any more; one that has moved money stays', async () => {
    await addCard(cards.good);
    const first = await prepare(newId('invoice'));
    expect((await direct.cancelCharge(first.paymentIntentId)).status).toBe('canceled');
    const second = await prepare(newId('invoice'));
    await direct.confirmCharge({ key: `c ${second.paymentIntentId}`, ...second });
    expect((await direct.cancelCharge(second.paymentIntentId)).status).toBe('succeeded');
  });
});
