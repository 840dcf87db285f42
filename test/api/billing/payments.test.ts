import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createApp } from '../../../api/app.ts';
import { keepPaymentIntent, recordCharge } from '../../../db/billing/payment-intents.ts';
import { findCustomer, findDefaultMethod } from '../../../db/billing/payment-methods.ts';
import { newId } from '../../../db/core/new-id.ts';
import { toChargeOutcome } from '../../../domain/billing/payments.ts';
import { PaymentProcessor, ProcessorUnavailableError } from '../../../integrations/payments/processor.ts';
import { refundCharge } from '../../../integrations/payments/refund-charge.ts';
import { addBilling } from '../../support/billing-rows.ts';
import { ledgerSums } from '../../support/ledger-sums.ts';
import { cards, declineCodes, type Notice, TestProcessor } from '../../support/payment-processor.ts';
import type { Json, Reply } from '../contract-client.ts';
import { type Caller, startApi, type TestApi } from '../test-api.ts';

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
const readEvents = async (accountId: string): Promise<string[]> => {
  const rows = (await api.orm.em
    .fork()
    .execute("select type from events where account_id = ? and type like 'payment.%' order by created_at, event_id", [
      accountId,
    ])) as {
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

test('a browser gets only the public key', async () => {
  const reply = await api.send(null, 'GET', '/v1/config/payment-processor');
  expect(reply.body.data).toEqual({ publishable_key: processor.publishableKey, test_mode: true });
});

test('a repeated request to add a card, or for a link, begins one setup', async () => {
  for (const url of ['/v1/payment/methods/setup-intent', '/v1/payment/methods/link']) {
    const before = processor.requests.filter((each) => each === 'POST /v1/setup_intents').length;
    const once = () =>
      api.send(root, 'POST', url, undefined, { headers: { 'idempotency-key': `once ${url}`.replace(' ', '-') } });
    const [first, again] = [await once(), await once()];
    expect(again.headers['idempotent-replayed']).toBe('true');
    // Only the first reply has the secret of a setup. A repeated reply has a new link to the same setup.
    const { client_secret: secret, ...data } = first.body.data;
    expect(again.body.data).toEqual(secret ? { ...data, client_secret: '' } : data);
    expect(processor.requests.filter((each) => each === 'POST /v1/setup_intents')).toHaveLength(before + 1);
  }
});

test('a card is added, and stored with only the allowed fields', async () => {
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
  expect(await readEvents(root.accountId)).toEqual(['payment.method_attached']);
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

test('a request and many concurrent copies of the notification store one card and send one event', async () => {
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  const replies = await Promise.all([
    ...Array.from({ length: 5 }, () => deliver(notice)),
    ...Array.from({ length: 5 }, () => check(setup)),
  ]);
  expect(replies.map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(await methods()).toHaveLength(1);
  expect(await readEvents(root.accountId)).toEqual(['payment.method_attached']);
});

test('the notification alone stores the card', async () => {
  const setup = await setUp();
  await processor.addCard(setup, cards.good);
  const notice = await processor.notice('setup_intent.succeeded', setup.setup_intent_id);
  expect((await deliver(notice)).status).toBe(200);
  expect(await methods()).toHaveLength(1);
});

test.each([
  ['is declined', cards.declined],
  ['asks for its owner, who has not answered yet', cards.asksForOwner],
])('a card that %s is not stored', async (_what, number) => {
  const setup = await setUp();
  await processor.addCard(setup, number);
  expect((await check(setup)).body.data).toEqual({ processed: false, method: null });
  expect(await methods()).toEqual([]);
});

test('a card that another account began to add cannot be requested', async () => {
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
  // A repeated choice changes nothing.
  await api.send(root, 'POST', '/v1/payment/methods/set-default', second);
  expect(await defaults()).toEqual([second.payment_method_id]);
  const [{ id }] = (await methods()).filter((each) => each.is_default);
  expect((await api.send(root, 'DELETE', `/v1/payment/methods/${id}`)).status).toBe(200);
  expect(await defaults()).toEqual([first.payment_method_id]);
  expect((await processor.get(`/v1/payment_methods/${second.payment_method_id}`)).customer).toBeNull();
  expect((await api.send(root, 'DELETE', `/v1/payment/methods/${id}`)).status).toBe(404);
  const gone = await api.send(root, 'POST', '/v1/payment/methods/set-default', second);
  expect([gone.status, gone.body.code]).toEqual([404, 'not_found']);
  expect(await readEvents(root.accountId)).toEqual([
    ...['payment.method_attached', 'payment.method_attached', 'payment.method_detached'],
  ]);
});

test('a card that is added while an invoice is past due becomes the default, which is charged at once', async () => {
  const declined = await addCard(cards.declinedLater);
  const invoiceId = await addBilling(api.orm.em, root.accountId);
  const em = api.orm.em.fork();
  const issued = await em.execute(
    "update invoices set status = 'open', issued_at = now() where invoice_id = ? returning 1",
    [invoiceId],
  );
  expect(issued).toHaveLength(1);
  await em.execute("update invoices set status = 'past_due', charge_attempts = 5 where invoice_id = ?", [invoiceId]);
  const good = await addCard(cards.good);
  const shown = (await methods()).map((method) => [method.payment_method_id, method.is_default]);
  expect(shown).toEqual([
    [good.payment_method_id, true],
    [declined.payment_method_id, false],
  ]);
  expect((await findDefaultMethod(api.orm.em, root.accountId))!.paymentMethodId).toBe(good.payment_method_id);
  const signals = await api.orm.em
    .fork()
    .execute('select 1 from outbox where workflow_id = ?', [`${root.accountId}/billing`]);
  expect(signals).not.toEqual([]);
});

test('a card that was removed at the processor is removed here', async () => {
  const card = await addCard(cards.good);
  await processor.get(`/v1/payment_methods/${card.payment_method_id}`);
  const attached = processor.sign('payment_method.detached', { id: card.payment_method_id, customer: null });
  // The notification may be late: at the processor the card may be attached again.
  expect((await deliver(attached)).status).toBe(200);
  expect(await methods()).toHaveLength(1);
  const direct = PaymentProcessor.of(api.settings)!;
  await direct.detachMethod(card.payment_method_id);
  await direct.detachMethod(card.payment_method_id);
  const detached = await processor.notice('payment_method.detached', card.payment_method_id);
  expect((await deliver(detached)).status).toBe(200);
  expect(await methods()).toEqual([]);
});

test("no account has access to another account's card", async () => {
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
    ['signed in the future', () => processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now() + 4000)],
    ['signed an hour ago', () => processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now() - 3600)],
    [
      'with a new time beside an old signature',
      () => {
        const { body, signature } = processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now() - 3600);
        return { body, signature: signature.replace(/t=\d+/, `t=${now()}`) };
      },
    ],
    ['with one byte more', () => ({ ...good(), body: `${good().body} ` })],
    [
      'with two signatures that are both wrong',
      () => ({ ...good(), signature: `t=${now()},v1=00,v1=${'ab'.repeat(32)}` }),
    ],
    [
      'with a signature of another scheme',
      () => {
        const { body, signature } = good();
        return { body, signature: signature.replace('v1=', 'v0=') };
      },
    ],
    [
      'without the time of the signature',
      () => {
        const { body, signature } = good();
        return { body, signature: signature.replace(/t=\d+,/, '') };
      },
    ],
    [
      'signed with the key of the API',
      () => processor.sign('setup_intent.succeeded', { id: 'seti_x' }, now(), processor.secretKey),
    ],
    ['with a body that is no JSON', () => ({ ...good(), body: 'seti' })],
    ['without a body', () => ({ ...good(), body: '' })],
  ])('%s are refused', async (_what, make) => {
    const before = processor.requests.length;
    const { status, body } = await deliver(make());
    expect([status, body.code]).toEqual([400, 'invalid_signature']);
    // No request is sent to the processor.
    expect(processor.requests).toHaveLength(before);
  });

  test('a valid signature next to a wrong one is accepted, as while the secret is changed', async () => {
    const { body, signature } = good();
    const other = processor.sign('setup_intent.succeeded', {}, now(), 'whsec_other').signature.replace(/^t=\d+,/, '');
    expect((await deliver({ body, signature: `${signature},${other}` })).status).toBe(200);
    expect((await deliver({ body, signature: signature.replace(',v1', `,${other},v1`) })).status).toBe(200);
  });

  test('one that is too large, or of another content type, is refused before it is parsed', async () => {
    const before = processor.requests.length;
    const huge = processor.sign('setup_intent.succeeded', { id: 'seti_x', more: 'x'.repeat(70_000) });
    const { status, body } = await deliver(huge);
    expect([status, body.code]).toEqual([413, 'payload_too_large']);
    for (const contentType of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml']) {
      const reply = await api.app.inject({
        ...{ method: 'POST', url: '/v1/payment/processor-webhook', payload: good().body },
        headers: { 'content-type': contentType, 'stripe-signature': good().signature },
      });
      expect([contentType, reply.statusCode, reply.json().code]).toEqual([contentType, 415, 'unsupported_media_type']);
    }
    expect(processor.requests).toHaveLength(before);
  });

  test('a valid one without an object is accepted, and changes nothing', async () => {
    for (const object of [undefined, null, {}, [], 'seti_x']) {
      expect((await deliver(processor.sign('setup_intent.succeeded', object))).status).toBe(200);
    }
  });

  test('a valid one about an unknown object is accepted, and changes nothing', async () => {
    expect((await deliver(good())).status).toBe(200);
    const unknown = processor.sign('customer.created', { id: 'cus_1' });
    expect((await deliver(unknown)).status).toBe(200);
  });
});

test('a processor that does not answer is 503, and the request can be repeated', async () => {
  processor.failNext(/POST \/v1\/customers/, 'unanswered');
  const failed = await api.send(root, 'POST', '/v1/payment/methods/setup-intent');
  expect([failed.status, failed.body.code, String(failed.headers['retry-after'])]).toEqual([
    ...[503, 'payment_processor_unavailable', '10'],
  ]);
  await setUp();
  // The customer of the lost reply is used.
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

test('a customer whose creation was not answered is made again after the address of the account has changed', async () => {
  const owner = await api.addAccount();
  const begin = () => api.send(owner, 'POST', '/v1/payment/methods/setup-intent');
  processor.failNext(/POST \/v1\/customers/, 'unanswered');
  expect((await begin()).status).toBe(503);
  const address = `changed-${owner.accountId}@example.com`;
  await api.orm.em.fork().execute('update accounts set email = ? where account_id = ?', [address, owner.accountId]);
  expect((await begin()).status).toBe(200);
});

test('an account can begin to add at most 20 cards', async () => {
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
    ['GET', '/v1/payment/subscription-payment-by-period', undefined],
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

  /** Prepares a charge of 12.34 USD for an invoice. May be called repeatedly. */
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

  test('that succeeds is booked once, even if it is reported repeatedly', async () => {
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
    expect(toChargeOutcome(charge.status)).toBe('succeeded');
    const notice = await processor.notice('payment_intent.succeeded', paymentIntentId);
    await Promise.all([
      recordCharge(api.orm.em, charge),
      deliver(notice),
      deliver(notice),
      recordCharge(api.orm.em, charge),
    ]);
    expect(await sums()).toEqual({ cash: 12.34, receivable: -12.34 });
    expect(await readEvents(root.accountId)).toEqual(['payment.method_attached', 'payment.succeeded']);
    expect(await moved(paymentIntentId)).toHaveLength(1);
    // A late report of an earlier state.
    await recordCharge(api.orm.em, { ...charge, status: 'requires_payment_method', failureReason: 'card_declined' });
    expect(await intent(paymentIntentId)).toMatchObject({ status: 'succeeded', failure_reason: null });
    const stranger = await api.addAccount();
    expect((await api.send(stranger, 'GET', `/v1/payment/intents/${paymentIntentId}`)).status).toBe(404);
    const { payment_intents: listed } = (await api.send(root, 'GET', '/v1/payment/intents?type=invoice')).body.data;
    expect(listed).toEqual([await intent(paymentIntentId)]);
    expect((await api.send(root, 'GET', '/v1/payment/intents?type=other')).body.data.payment_intents).toEqual([]);
  });

  test('whose reply is lost has an unknown outcome, and is later found to have moved the money once', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    processor.failNext(/confirm$/, 'unanswered');
    const attempt = { key: `lost ${paymentIntentId}`, paymentIntentId, paymentMethodId };
    await expect(direct.confirmCharge(attempt)).rejects.toBeInstanceOf(ProcessorUnavailableError);
    expect(toChargeOutcome((await direct.readCharge(paymentIntentId)).status)).toBe('succeeded');
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    // The same when the processor has forgotten the key.
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
    expect(toChargeOutcome((await direct.readCharge(paymentIntentId)).status)).toBe('unknown');
    expect(await moved(paymentIntentId)).toHaveLength(0);
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('that is declined has failed, and succeeds with another card as the same charge', async () => {
    await addCard(cards.declinedLater);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const declined = await direct.confirmCharge({ key: `first ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect([toChargeOutcome(declined.status), declined.failureReason]).toEqual(['failed', 'card_declined']);
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
    expect(await readEvents(root.accountId)).toEqual([
      ...['payment.method_attached', 'payment.failed', 'payment.method_attached', 'payment.succeeded'],
    ]);
  });

  test('that is declined five times for the same reason has failed five times', async () => {
    await addCard(cards.declinedLater);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const updates = new Set<string>();
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const key = `five ${paymentIntentId} ${attempt}`;
      const declined = await direct.confirmCharge({ key, paymentIntentId, paymentMethodId });
      await Promise.all([recordCharge(api.orm.em, declined), recordCharge(api.orm.em, declined)]);
      updates.add((await intent(paymentIntentId)).updated_at);
    }
    const failed = (await readEvents(root.accountId)).filter((type) => type === 'payment.failed');
    expect([failed.length, updates.size]).toEqual([5, 5]);
  });

  test('whose card needs its owner’s confirmation has failed', async () => {
    const card = await addCard(cards.good);
    const { paymentIntentId } = await prepare(newId('invoice'));
    const setup = await setUp();
    await processor.addCard(setup, cards.asksForOwner);
    const { payment_method: paymentMethodId } = await processor.get(`/v1/setup_intents/${setup.setup_intent_id}`);
    expect(paymentMethodId).not.toBe(card.payment_method_id);
    const charge = await direct.confirmCharge({ key: `owner ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect([charge.status, toChargeOutcome(charge.status)]).toEqual(['requires_action', 'failed']);
    expect(await moved(paymentIntentId)).toHaveLength(0);
  });

  test.each(Object.entries(declineCodes))('to the card %s is declined with the reason %s', async (number, reason) => {
    await addCard(number);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const charge = await direct.confirmCharge({ key: `d ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    await recordCharge(api.orm.em, charge);
    expect([toChargeOutcome(charge.status), charge.failureReason]).toEqual(['failed', reason]);
    expect(await intent(paymentIntentId)).toMatchObject({ status: 'requires_payment_method', failure_reason: reason });
    expect(await moved(paymentIntentId)).toHaveLength(0);
  });

  test('that the processor makes without an answer is found, once', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    processor.failNext(/confirm$/, 'hung');
    const attempt = { key: `hung ${paymentIntentId}`, paymentIntentId, paymentMethodId };
    await expect(direct.confirmCharge(attempt)).rejects.toBeInstanceOf(ProcessorUnavailableError);
    processor.heal();
    expect((await direct.readCharge(paymentIntentId)).status).toBe('succeeded');
    expect(await moved(paymentIntentId)).toHaveLength(1);
  }, 300_000);

  test('is reported in any order, late and several times, and ends the same', async () => {
    await addCard(cards.declinedLater);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    await direct.confirmCharge({ key: `1 ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    const other = (await addCard(cards.good)).payment_method_id;
    await direct.confirmCharge({ key: `2 ${paymentIntentId}`, paymentIntentId, paymentMethodId: other });
    await direct.refundCharge({ key: `3 ${paymentIntentId}`, paymentIntentId, amount: '2.34', currency: 'USD' });
    const failed = processor.sign('payment_intent.payment_failed', { id: paymentIntentId });
    const succeeded = processor.sign('payment_intent.succeeded', { id: paymentIntentId });
    const refunded = await processor.notice('refund.created', paymentIntentId);
    const notices = [failed, succeeded, refunded];
    for (const notice of [refunded, succeeded, failed, refunded]) expect((await deliver(notice)).status).toBe(200);
    const replies = await Promise.all([...notices, ...notices, ...notices].map(deliver));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await intent(paymentIntentId)).toMatchObject({
      ...{ status: 'succeeded', amount_refunded: 2.34, failure_reason: null, payment_method_id: other },
    });
    expect(await sums()).toEqual({ cash: 10, receivable: -12.34, revenue: 2.34 });
    expect((await readEvents(root.accountId)).filter((type) => !type.startsWith('payment.method'))).toEqual([
      ...['payment.succeeded', 'payment.refunded'],
    ]);
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('whose account is suspended in the meantime is booked like any other', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const setStatus = (status: string) =>
      api.orm.em.fork().execute('update accounts set status = ? where account_id = ?', [status, root.accountId]);
    await setStatus('suspended');
    await direct.confirmCharge({ key: `s ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect((await deliver(await processor.notice('payment_intent.succeeded', paymentIntentId))).status).toBe(200);
    expect(await sums()).toEqual({ cash: 12.34, receivable: -12.34 });
    // The account can read its charge, and change nothing.
    expect(await intent(paymentIntentId)).toMatchObject({ status: 'succeeded' });
    const [card] = await methods();
    for (const [method, url, body] of [
      ['DELETE', `/v1/payment/methods/${card.id}`, undefined],
      ['POST', '/v1/payment/methods/set-default', { payment_method_id: card.id }],
      ['POST', '/v1/payment/methods/setup-intent', undefined],
      ['POST', '/v1/payment/methods/link', undefined],
    ] as const) {
      const reply = await api.send(root, method, url, body);
      expect([url, reply.status, reply.body.code]).toEqual([url, 403, 'account_suspended']);
    }
    expect(await methods()).toHaveLength(1);
  });

  test('whose card is removed before it is made has failed, and another card pays as the same charge', async () => {
    const first = await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    expect((await api.send(root, 'DELETE', `/v1/payment/methods/${first.payment_method_id}`)).status).toBe(200);
    const refused = await direct.confirmCharge({ key: `g ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    expect(toChargeOutcome(refused.status)).toBe('failed');
    await recordCharge(api.orm.em, refused);
    expect(await intent(paymentIntentId)).toMatchObject({ status: 'requires_payment_method' });
    const { payment_method_id: other } = await addCard(cards.otherGood);
    const attempt = { key: `h ${paymentIntentId}`, paymentIntentId, paymentMethodId: other };
    expect((await direct.confirmCharge(attempt)).status).toBe('succeeded');
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('whose card is removed while its answer is lost is still found, and booked', async () => {
    const card = await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    processor.failNext(/confirm$/, 'unanswered');
    const attempt = { key: `u ${paymentIntentId}`, paymentIntentId, paymentMethodId };
    await expect(direct.confirmCharge(attempt)).rejects.toBeInstanceOf(ProcessorUnavailableError);
    expect((await api.send(root, 'DELETE', `/v1/payment/methods/${card.payment_method_id}`)).status).toBe(200);
    processor.forgetKeys();
    const charge = await direct.confirmCharge(attempt);
    expect(charge.status).toBe('succeeded');
    await recordCharge(api.orm.em, charge);
    expect(await sums()).toEqual({ cash: 12.34, receivable: -12.34 });
    expect(await moved(paymentIntentId)).toHaveLength(1);
  });

  test('that is refunded at the processor is booked once, with the amount', async () => {
    await addCard(cards.good);
    const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
    const charge = await direct.confirmCharge({ key: `r ${paymentIntentId}`, paymentIntentId, paymentMethodId });
    await recordCharge(api.orm.em, charge);
    for (const amountRefunded of ['2.00', '2.00', '5.00', '2.00'])
      await recordCharge(api.orm.em, { ...charge, amountRefunded });
    expect(await sums()).toEqual({ cash: 7.34, receivable: -12.34, revenue: 5 });
    expect(await intent(paymentIntentId)).toMatchObject({ amount_refunded: 5 });
    const events = await api.orm.em
      .fork()
      .execute("select data from events where account_id = ? and type = 'payment.refunded' order by created_at", [
        root.accountId,
      ]);
    expect(events.map(({ data }: Json) => [data.amount, data.amount_refunded])).toEqual([
      [2, 2],
      [3, 5],
    ]);
  });

  describe('is refunded by an operator', () => {
    let charge: string;
    beforeEach(async () => {
      await addCard(cards.good);
      const { paymentIntentId, paymentMethodId } = await prepare(newId('invoice'));
      charge = paymentIntentId;
      const key = `given back ${charge}`;
      await recordCharge(api.orm.em, await direct.confirmCharge({ key, paymentIntentId, paymentMethodId }));
    });
    const refund = (body: Json, more = {}, id = charge) =>
      api.send(api.root, 'POST', `/v1/payment/intents/${id}/refunds`, body, more);
    const refundEvents = async () => (await readEvents(root.accountId)).filter((type) => type === 'payment.refunded');
    const rows = async () =>
      (await api.orm.em
        .fork()
        .execute('select amount::text, status from payment_refunds where payment_intent_id = ? order by created_at', [
          charge,
        ])) as { amount: string; status: string }[];

    test('in parts, until nothing is left', async () => {
      const part = await refund({ amount: 2.34, description: 'An hour without service' });
      expect([part.status, part.body.data]).toMatchObject([
        201,
        {
          ...{ payment_intent_id: charge, account_id: root.accountId, amount: 2.34, currency: 'USD' },
          ...{ status: 'succeeded', failure_reason: null, description: 'An hour without service' },
        },
      ]);
      expect(await intent(charge)).toMatchObject({ status: 'succeeded', amount_refunded: 2.34 });
      const tooMuch = await refund({ amount: 10.01 });
      expect([tooMuch.status, tooMuch.body.code, tooMuch.body.error]).toEqual([
        ...[400, 'refund_too_large', 'Of the charge 10.00 USD can be given back'],
      ]);
      expect((await refund({})).body.data).toMatchObject({ amount: 10, status: 'succeeded' });
      for (const amount of [undefined, 0.01]) expect((await refund({ amount })).body.code).toBe('refund_too_large');
      expect(await processor.listRefunds(charge)).toEqual(expect.arrayContaining([1000, 234]));
      expect(await sums()).toEqual({ cash: 0, receivable: -12.34, revenue: 12.34 });
      expect(await intent(charge)).toMatchObject({ amount_refunded: 12.34 });
      expect(await refundEvents()).toHaveLength(2);
      const { events } = (await api.send(root, 'GET', '/v1/audit-events?action=refundPaymentIntent')).body.data;
      expect(events).toMatchObject([{ after: { refund: '10.00 USD' } }, { after: { refund: '2.34 USD' } }]);
    });

    test('once, even if it is repeated and reported several times', async () => {
      const once = { headers: { 'idempotency-key': `refund ${charge}`.replaceAll(' ', '-') } };
      const replies = [await refund({ amount: 5 }, once), await refund({ amount: 5 }, once)];
      expect(replies[1]!.body.data).toEqual(replies[0]!.body.data);
      const notice = await processor.notice('refund.created', charge);
      await Promise.all([deliver(notice), deliver(notice), deliver(notice)]);
      expect(await processor.listRefunds(charge)).toEqual([500]);
      expect(await sums()).toEqual({ cash: 7.34, receivable: -12.34, revenue: 5 });
      expect(await refundEvents()).toHaveLength(1);
    });

    test('by several concurrent requests, up to its amount', async () => {
      const replies = await Promise.all(Array.from({ length: 6 }, () => refund({ amount: 5 })));
      const statuses = replies.map(({ status }) => status).sort();
      expect(statuses).toEqual([201, 201, 400, 400, 400, 400]);
      expect(await processor.listRefunds(charge)).toEqual([500, 500]);
      expect(await sums()).toEqual({ cash: 2.34, receivable: -12.34, revenue: 10 });
    });

    test('and the answer is lost: it counts as refunded, and a notification confirms it', async () => {
      processor.failNext(/POST \/v1\/refunds/, 'unanswered');
      expect((await refund({ amount: 10 })).body.data).toMatchObject({ status: 'requested', amount: 10 });
      expect(await processor.listRefunds(charge)).toEqual([1000]);
      expect((await deliver(await processor.notice('refund.created', charge))).status).toBe(200);
      expect(await rows()).toEqual([{ amount: '10.000', status: 'succeeded' }]);
      expect(await sums()).toEqual({ cash: 2.34, receivable: -12.34, revenue: 10 });
    });

    test('and the request is lost: a repetition with its id makes it, and never twice', async () => {
      processor.failNext(/POST \/v1\/refunds/, 'lost');
      const { refund_id: refundId } = (await refund({ amount: 10 })).body.data;
      expect(await processor.listRefunds(charge)).toEqual([]);
      // Until its outcome is known it counts as refunded.
      expect((await refund({ amount: 5 })).body.code).toBe('refund_too_large');
      const again = { refundId, paymentIntentId: charge, amount: null, description: '' };
      processor.failNext(/POST \/v1\/refunds/, 'unanswered');
      const payments = { orm: api.orm, processor: direct };
      expect(await refundCharge(payments, again)).toMatchObject({ status: 'requested' });
      // A day later the processor knows the refund, but not its key.
      processor.forgetKeys();
      expect(await refundCharge(payments, again)).toMatchObject({ status: 'succeeded', amount: '10.00' });
      expect(await refundCharge(payments, again)).toMatchObject({ status: 'succeeded' });
      expect(await processor.listRefunds(charge)).toEqual([1000]);
      expect(await sums()).toEqual({ cash: 2.34, receivable: -12.34, revenue: 10 });
    });

    test.each(['succeeded', 'failed'] as const)('and the bank is slow: it is pending, then %s', async (status) => {
      try {
        processor.refundStatus = 'pending';
        expect((await refund({ amount: 5 })).body.data).toMatchObject({ status: 'pending' });
        expect((await refund({ amount: 7.35 })).body.code).toBe('refund_too_large');
        processor.refundStatus = status;
        expect((await deliver(await processor.notice('refund.created', charge))).status).toBe(200);
        expect(await rows()).toEqual([{ amount: '5.000', status }]);
      } finally {
        processor.refundStatus = 'succeeded';
      }
    });

    test('and the processor refuses it: nothing is booked', async () => {
      // It was refunded in the processor's dashboard, and the notification has not arrived.
      await direct.refundCharge({ key: 'elsewhere', paymentIntentId: charge, amount: '12.34', currency: 'USD' });
      const refused = await refund({ amount: 1 });
      expect(refused.body.data).toMatchObject({ status: 'failed', failure_reason: 'charge_already_refunded' });
      expect(await sums()).toEqual({ cash: 12.34, receivable: -12.34 });
      expect((await deliver(await processor.notice('refund.created', charge))).status).toBe(200);
      expect(await sums()).toEqual({ cash: 0, receivable: -12.34, revenue: 12.34 });
      expect((await refund({ amount: 1 })).body.code).toBe('refund_too_large');
    });

    test('only if it has moved money, and only by an operator', async () => {
      const prepared = await prepare(newId('invoice'));
      const early = await refund({}, {}, prepared.paymentIntentId);
      expect([early.status, early.body.code]).toEqual([409, 'payment_not_refundable']);
      expect((await refund({}, {}, 'pi_unknown')).status).toBe(404);
      const own = await api.send(root, 'POST', `/v1/payment/intents/${charge}/refunds`, {});
      expect([own.status, own.body.code]).toEqual([403, 'admin_required']);
      expect(await rows()).toEqual([]);
    });

    test.each([0, -1, 0.001, 1_000_000_001, 1e300, '5', null, [5], true])(
      'not with an amount of %p',
      async (amount) => {
        const reply = await refund({ amount });
        // Null is like a missing value.
        expect([reply.status, reply.body.code ?? reply.body.data.amount]).toEqual(
          amount === null ? [201, 12.34] : [400, 'validation_failed'],
        );
        expect(await processor.listRefunds(charge)).toEqual(amount === null ? [1234] : []);
      },
    );
  });

  test('that is cancelled cannot move money any more; one that has moved money stays', async () => {
    await addCard(cards.good);
    const first = await prepare(newId('invoice'));
    expect((await direct.cancelCharge(first.paymentIntentId)).status).toBe('canceled');
    const second = await prepare(newId('invoice'));
    await direct.confirmCharge({ key: `c ${second.paymentIntentId}`, ...second });
    expect((await direct.cancelCharge(second.paymentIntentId)).status).toBe('succeeded');
  });
});

describe('a link to the page that adds a card', () => {
  const make = async (of = root): Promise<Json> => (await api.send(of, 'POST', '/v1/payment/methods/link')).body.data;
  const ask = async (what: string, token: string) => {
    const reply = await api.app.inject({ method: 'POST', url: `/account/add-card/${what}`, payload: { token } });
    return { status: reply.statusCode, headers: reply.headers, body: reply.json() };
  };
  const parseToken = ({ url }: Json): string => url.split('#')[1];

  test('gives access to one setup, with the data that a browser needs, and reports its card', async () => {
    const link = await make();
    const begun = await ask('begin', parseToken(link));
    expect(begun.body.data).toEqual({
      ...{ method: null, publishable_key: processor.publishableKey },
      client_secret: expect.stringMatching(`^${link.setup_intent_id}_secret_`),
    });
    expect(String(begun.headers['cache-control'])).toBe('no-store');
    expect((await ask('check', parseToken(link))).body.data).toEqual({ method: null });
    const setup = { setup_intent_id: link.setup_intent_id, client_secret: begun.body.data.client_secret };
    await processor.addCard(setup, cards.good);
    const added = { method: { brand: 'visa', last4: '4242' } };
    expect((await ask('check', parseToken(link))).body.data).toEqual(added);
    // The secret is not returned after the card was added.
    expect((await ask('begin', parseToken(link))).body.data).toEqual(added);
    expect(await methods()).toHaveLength(1);
    expect(Date.parse(link.expires_at) - Date.now()).toBeGreaterThan(59 * 60_000);
  });

  test.each<[string, (link: Json) => Promise<string> | string]>([
    ['altered', (link) => `${parseToken(link).slice(0, -3)}AAA`],
    ['without a signature', (link) => parseToken(link).replace(/[^.]+$/, '')],
    [
      'over',
      ({ setup_intent_id: setupIntentId }) =>
        api.dependencies.cardLinks.make({ setupIntentId, credentialId: root.keyId }, new Date(Date.now() - 1000)),
    ],
    [
      'for the setup of another account',
      async () => {
        const { setup_intent_id: setupIntentId } = await setUp(await api.addAccount());
        const soon = new Date(Date.now() + 60_000);
        return api.dependencies.cardLinks.make({ setupIntentId, credentialId: root.keyId }, soon);
      },
    ],
    [
      'of a user who is not root',
      async ({ setup_intent_id: setupIntentId }) => {
        const { keyId: credentialId } = await api.addUser(root);
        return api.dependencies.cardLinks.make({ setupIntentId, credentialId }, new Date(Date.now() + 60_000));
      },
    ],
    [
      'of a key that was disabled',
      async (link) => {
        await api.orm.em.fork().execute('update api_keys set is_active = false where key_id = ?', [root.keyId]);
        return parseToken(link);
      },
    ],
  ])('that is %s opens nothing', async (_what, make_) => {
    const token = await make_(await make());
    for (const what of ['begin', 'check']) {
      const reply = await ask(what, token);
      expect([reply.status, reply.body.code]).toEqual([400, 'invalid_link']);
    }
  });

  test('of a suspended account does not work until the account is reopened', async () => {
    const token = parseToken(await make());
    const setStatus = (status: string) =>
      api.orm.em.fork().execute('update accounts set status = ? where account_id = ?', [status, root.accountId]);
    await setStatus('suspended');
    expect((await ask('begin', token)).body.code).toBe('account_suspended');
    await setStatus('active');
    expect((await ask('begin', token)).status).toBe(200);
  });

  test.each([
    [
      'https://js.stripe.com/v3/',
      "default-src 'none'; style-src 'self'; script-src 'self' https://js.stripe.com https://*.js.stripe.com; " +
        'frame-src https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com; ' +
        "connect-src 'self' https://api.stripe.com; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ],
    [
      'https://pay.example:8443/js/v3/',
      "default-src 'none'; style-src 'self'; script-src 'self' https://pay.example:8443; " +
        "frame-src https://pay.example:8443; connect-src 'self' https://pay.example:8443; form-action 'none'; " +
        "base-uri 'none'; frame-ancestors 'none'",
    ],
  ])('leads to a page whose policy allows only the script at %s and its requests', async (url, policy) => {
    const settings = { ...api.settings, PLATFORM_STRIPE_SCRIPT_URL: url };
    const app = createApp({ ...api.dependencies, settings });
    const reply = await app.inject({ url: '/account/add-card' });
    expect(reply.statusCode).toBe(200);
    expect(reply.headers).toMatchObject({
      ...{ 'content-security-policy': policy, 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' },
      ...{ 'x-frame-options': 'DENY', 'x-content-type-options': 'nosniff' },
    });
    expect([...reply.body.matchAll(/<script[^>]*>/g)].map(([tag]) => tag)).toEqual([
      ...[`<script src="${url}">`, '<script type="module" src="/account/add-card/script.js">'],
    ]);
    expect(reply.headers['set-cookie']).toBeUndefined();
    await app.close();
  });
});
