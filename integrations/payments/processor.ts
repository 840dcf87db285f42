import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import Stripe from 'stripe';
import { type Amount, fromSmallestUnit, toSmallestUnit } from '../../domain/billing/money.ts';
import { type ChargeState, type RefundStatus, toChargeState, toRefundStatus } from '../../domain/billing/payments.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { processorFetch } from './processor-fetch.ts';

/**
 * The fields of a payment method that may be stored. The number and the check code of a card never reach the platform.
 */
export interface ProcessorMethod {
  paymentMethodId: string;
  customerId: string | null;
  type: string;
  fingerprint: string | null;
  last4: string | null;
  expMonth: number | null;
  expYear: number | null;
  brand: string | null;
  billingName: string | null;
  billingEmail: string | null;
  billingCountry: string | null;
}

export interface ProcessorSetup {
  setupIntentId: string;
  customerId: string | null;
  status: string;
  paymentMethodId: string | null;
  /** Only for the owner's browser. */
  clientSecret: string;
}

export interface ProcessorCharge extends ChargeState {
  paymentIntentId: string;
  customerId: string | null;
  paymentMethodId: string | null;
  amount: Amount;
  currency: string;
  /** The last attempt to move the money. Null: there was none. */
  attemptId: string | null;
}

export interface ProcessorRefund {
  processorRefundId: string;
  /** The key of the refund's request. Null: it was made elsewhere, such as on the processor's own pages. */
  key: string | null;
  status: RefundStatus;
  failureReason: string | null;
}

/** The object of a processor's notification. Its state is read from the processor, not from the notification. */
export type ProcessorNotice =
  | { about: 'setup'; setupIntentId: string }
  | { about: 'charge'; paymentIntentId: string }
  | { about: 'method'; paymentMethodId: string }
  | { about: 'nothing' };

/** The processor did not reply, or replied with nonsense, so it is unknown whether it carried out the call. */
export class ProcessorUnavailableError extends Error {
  override name = 'ProcessorUnavailableError';
}

/** The processor refused and did nothing. `code` is the processor's code, such as `card_declined`. */
export class ProcessorRefusedError extends Error {
  override name = 'ProcessorRefusedError';
  readonly code: string;
  readonly isNotFound: boolean;

  constructor(code: string, isNotFound: boolean) {
    super(`The payment processor refused: ${code}`);
    this.code = code;
    this.isNotFound = isNotFound;
  }
}

/** A notification with a signature that is not the processor's, or from another time. */
export class ForgedNoticeError extends Error {
  override name = 'ForgedNoticeError';
}

type PaymentSettings = Pick<
  Settings,
  | 'PLATFORM_STRIPE_API_URL'
  | 'PLATFORM_STRIPE_PUBLISHABLE_KEY'
  | 'PLATFORM_STRIPE_SECRET_KEY_FILE'
  | 'PLATFORM_STRIPE_WEBHOOK_SECRET_FILE'
>;

/** The time limit of one request. A call makes at most two: one, and a query for its outcome. */
export const requestTimeoutMs = 20_000;
interface ProcessorKeys {
  publishable: string;
  secret: string;
  webhook: string;
}

/** A signature may be older or newer by this much. An older one counts as a replay; with a newer one, a clock is wrong. */
const toleranceSeconds = 300;

/** The payment processor (Stripe, or a service with its API). Every call has limits on time and bytes. */
export class PaymentProcessor {
  readonly publishableKey: string;
  readonly isTest: boolean;
  readonly #stripe: Stripe;
  readonly #keys: ProcessorKeys;
  readonly #apiUrl: string;

  private constructor(keys: ProcessorKeys, apiUrl: string, signal?: AbortSignal) {
    this.publishableKey = keys.publishable;
    this.isTest = keys.publishable.startsWith('pk_test_');
    this.#keys = keys;
    this.#apiUrl = apiUrl;
    const { protocol, hostname, port } = new URL(apiUrl);
    this.#stripe = new Stripe(keys.secret, {
      host: hostname,
      ...(port !== '' && { port }),
      protocol: protocol === 'http:' ? 'http' : 'https',
      httpClient: Stripe.createFetchHttpClient(processorFetch(requestTimeoutMs, signal)),
      timeout: requestTimeoutMs,
      // The caller decides whether to retry.
      maxNetworkRetries: 0,
      telemetry: false,
    });
  }

  /** Null: the settings have no processor. Reads the files with the keys. */
  static of(settings: PaymentSettings): PaymentProcessor | null {
    const { PLATFORM_STRIPE_SECRET_KEY_FILE: secretFile, PLATFORM_STRIPE_WEBHOOK_SECRET_FILE: webhookFile } = settings;
    if (!secretFile || !webhookFile) return null;
    const read = (file: string) => readFileSync(file, 'utf8').trim();
    const keys = {
      publishable: settings.PLATFORM_STRIPE_PUBLISHABLE_KEY!,
      secret: read(secretFile),
      webhook: read(webhookFile),
    };
    return new PaymentProcessor(keys, settings.PLATFORM_STRIPE_API_URL);
  }

  /** The same processor, whose calls are given up when `signal` is aborted. The outcome of such a call is unknown. */
  until(signal: AbortSignal): PaymentProcessor {
    return new PaymentProcessor(this.#keys, this.#apiUrl, signal);
  }

  /**
   * Creates the customer of an account. A repeated call within a day returns the same customer. The key contains the
   * address, because the processor refuses a known key with other parameters.
   */
  async createCustomer(account: { accountId: string; email: string }): Promise<string> {
    const { accountId, email } = account;
    const customer = await calling(() =>
      this.#stripe.customers.create(
        { email, metadata: { account_id: accountId } },
        { idempotencyKey: `customer ${accountId} ${computeDigest(email)}` },
      ),
    );
    return customer.id;
  }

  /**
   * Begins a setup that adds a card for later charges without its owner. The secret is only for the owner's browser.
   */
  async createSetup(customerId: string): Promise<{ setupIntentId: string; clientSecret: string }> {
    const intent = await calling(() =>
      this.#stripe.setupIntents.create({
        customer: customerId,
        usage: 'off_session',
        allowed_payment_method_types: ['card'],
      }),
    );
    return { setupIntentId: intent.id, clientSecret: requireClientSecret(intent) };
  }

  async readSetup(setupIntentId: string): Promise<ProcessorSetup> {
    const intent = await calling(() => this.#stripe.setupIntents.retrieve(setupIntentId));
    return {
      setupIntentId: intent.id,
      customerId: toId(intent.customer),
      status: intent.status,
      paymentMethodId: toId(intent.payment_method),
      clientSecret: requireClientSecret(intent),
    };
  }

  async readMethod(paymentMethodId: string): Promise<ProcessorMethod> {
    const method = await calling(() => this.#stripe.paymentMethods.retrieve(paymentMethodId));
    const { card, billing_details: billing } = method;
    return {
      paymentMethodId: method.id,
      customerId: toId(method.customer),
      type: method.type,
      fingerprint: card?.fingerprint ?? null,
      last4: card?.last4 ?? null,
      expMonth: card?.exp_month ?? null,
      expYear: card?.exp_year ?? null,
      brand: card?.brand ?? null,
      billingName: billing?.name ?? null,
      billingEmail: billing?.email ?? null,
      billingCountry: billing?.address?.country ?? null,
    };
  }

  /** Makes the processor forget a payment method of a customer. Succeeds if the method is already detached. */
  async detachMethod(paymentMethodId: string): Promise<void> {
    try {
      await calling(() => this.#stripe.paymentMethods.detach(paymentMethodId));
    } catch (error) {
      if (!(error instanceof ProcessorRefusedError)) throw error;
      const isDetached = error.isNotFound || (await this.readMethod(paymentMethodId)).customerId === null;
      if (!isDetached) throw error;
    }
  }

  /**
   * Makes an unconfirmed charge, so that its id can be stored first. A repeated call with the same key returns the same
   * charge. An unconfirmed charge moves no money.
   */
  async prepareCharge(wanted: {
    key: string;
    customerId: string;
    paymentMethodId: string;
    amount: Amount;
    currency: string;
    metadata: Record<string, string>;
  }): Promise<ProcessorCharge> {
    const intent = await calling(() =>
      this.#stripe.paymentIntents.create(
        {
          amount: toSmallestUnit(wanted.amount, wanted.currency),
          currency: wanted.currency.toLowerCase(),
          customer: wanted.customerId,
          payment_method: wanted.paymentMethodId,
          allowed_payment_method_types: ['card'],
          metadata: wanted.metadata,
        },
        { idempotencyKey: wanted.key },
      ),
    );
    return toProcessorCharge(intent);
  }

  /**
   * Moves the money without the owner of the card. If the card is declined, or requires an action of its owner, that is
   * an outcome and not an error.
   * @param attempt.key a different key for each attempt; for a known key the processor repeats its outcome and moves no
   * money again
   * @throws {ProcessorUnavailableError} when the outcome is unknown; read the charge
   */
  async confirmCharge(attempt: {
    key: string;
    paymentIntentId: string;
    paymentMethodId: string;
  }): Promise<ProcessorCharge> {
    try {
      const intent = await calling(() =>
        this.#stripe.paymentIntents.confirm(
          attempt.paymentIntentId,
          { payment_method: attempt.paymentMethodId, off_session: true },
          { idempotencyKey: attempt.key },
        ),
      );
      return toProcessorCharge(intent);
    } catch (error) {
      // The processor reports a decline, and an already confirmed charge, as an error. The current state of the charge
      // decides.
      if (!(error instanceof ProcessorRefusedError)) throw error;
      const charge = await this.readCharge(attempt.paymentIntentId);
      if (charge.status !== 'requires_confirmation') return charge;
      // The charge was refused before it was tried, for example because the card was removed meanwhile. Another card
      // may be charged.
      return { ...charge, status: 'requires_payment_method', failureReason: error.code.slice(0, 100) };
    }
  }

  async readCharge(paymentIntentId: string): Promise<ProcessorCharge> {
    return toProcessorCharge(
      await calling(() => this.#stripe.paymentIntents.retrieve(paymentIntentId, { expand: ['latest_charge'] })),
    );
  }

  /**
   * One page of the charges that were made between two times (Unix seconds), newest first.
   * @param after the last charge of the previous page
   */
  async listCharges(wanted: {
    fromSeconds: number;
    untilSeconds: number;
    after: string | null;
  }): Promise<{ charges: ProcessorCharge[]; isLast: boolean }> {
    const page = await calling(() =>
      this.#stripe.paymentIntents.list({
        limit: 100,
        created: { gte: wanted.fromSeconds, lt: wanted.untilSeconds },
        expand: ['data.latest_charge'],
        ...(wanted.after !== null && { starting_after: wanted.after }),
      }),
    );
    return { charges: page.data.map(toProcessorCharge), isLast: !page.has_more || page.data.length === 0 };
  }

  /** Cancels a charge that has not moved money. A charge that has moved money stays. */
  async cancelCharge(paymentIntentId: string): Promise<ProcessorCharge> {
    try {
      return toProcessorCharge(await calling(() => this.#stripe.paymentIntents.cancel(paymentIntentId)));
    } catch (error) {
      if (!(error instanceof ProcessorRefusedError)) throw error;
      return this.readCharge(paymentIntentId);
    }
  }

  /**
   * Refunds a charge or a part of it.
   * @param wanted.key a repeated call with the same key within a day returns the same refund; later, look the refund up
   * first
   * @throws {ProcessorUnavailableError} when the outcome is unknown; list the refunds
   */
  async refundCharge(wanted: {
    key: string;
    paymentIntentId: string;
    amount: Amount;
    currency: string;
  }): Promise<ProcessorRefund> {
    const { key, paymentIntentId, amount, currency } = wanted;
    const refund = await calling(() =>
      this.#stripe.refunds.create(
        {
          payment_intent: paymentIntentId,
          amount: toSmallestUnit(amount, currency),
          metadata: { [refundKey]: key },
        },
        { idempotencyKey: key },
      ),
    );
    return toProcessorRefund(refund);
  }

  /** All refunds of a charge, newest first. */
  async listRefunds(paymentIntentId: string): Promise<ProcessorRefund[]> {
    const refunds: ProcessorRefund[] = [];
    await calling(async () => {
      for await (const each of this.#stripe.refunds.list({ payment_intent: paymentIntentId, limit: 100 })) {
        refunds.push(toProcessorRefund(each));
      }
    });
    return refunds;
  }

  /**
   * Checks the signature of a notification, and reads which object it is about.
   * @param body the unchanged body
   * @throws {ForgedNoticeError}
   */
  readNotice(body: string, signature: string): ProcessorNotice {
    let event: Stripe.Event;
    try {
      event = this.#stripe.webhooks.constructEvent(body, signature, this.#keys.webhook, toleranceSeconds);
      // The library only refuses old signatures.
      const signedAt = Number([...signature.matchAll(/(?:^|,)t=(\d+)/g)].at(-1)?.[1]);
      if (!(signedAt <= Date.now() / 1000 + toleranceSeconds)) throw new Error('signed in the future');
    } catch {
      throw new ForgedNoticeError('The signature of the notification is wrong, or from another time');
    }
    const { id, payment_intent: chargeId } = (event.data?.object ?? {}) as {
      id?: string;
      payment_intent?: string | null;
    };
    if (id === undefined) return { about: 'nothing' };
    if (event.type.startsWith('setup_intent.')) return { about: 'setup', setupIntentId: id };
    if (event.type.startsWith('payment_intent.')) return { about: 'charge', paymentIntentId: id };
    if (/^(charge|refund)\./.test(event.type) && chargeId) return { about: 'charge', paymentIntentId: chargeId };
    if (event.type.startsWith('payment_method.')) return { about: 'method', paymentMethodId: id };
    return { about: 'nothing' };
  }
}

function requireClientSecret({ client_secret: secret }: Stripe.SetupIntent): string {
  if (typeof secret === 'string') return secret;
  throw new ProcessorUnavailableError('The payment processor answered without the secret of a setup');
}

function computeDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function toProcessorCharge(intent: Stripe.PaymentIntent): ProcessorCharge {
  if (typeof intent.currency !== 'string' || !Number.isSafeInteger(intent.amount)) {
    throw new ProcessorUnavailableError('The payment processor answered with something that is no charge');
  }
  const currency = intent.currency.toUpperCase();
  const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null;
  const { last_payment_error: error } = intent;
  return {
    paymentIntentId: intent.id,
    customerId: toId(intent.customer),
    paymentMethodId: toId(intent.payment_method),
    amount: fromSmallestUnit(intent.amount, currency),
    currency,
    ...toChargeState(intent.status, error?.decline_code ?? error?.code ?? null),
    attemptId: toId(intent.latest_charge),
    amountRefunded: fromSmallestUnit(charge?.amount_refunded ?? 0, currency),
  };
}

/** The field of a refund's metadata that contains its key. */
const refundKey = 'refund_id';

function toProcessorRefund(refund: Stripe.Refund): ProcessorRefund {
  return {
    processorRefundId: refund.id,
    key: refund.metadata?.[refundKey] ?? null,
    status: toRefundStatus(refund.status),
    failureReason: refund.failure_reason?.slice(0, 100) ?? null,
  };
}

function toId(reference: string | { id: string } | null | undefined): string | null {
  return typeof reference === 'object' ? (reference?.id ?? null) : (reference ?? null);
}

/**
 * Classifies the failures of a call: certainly refused, or unknown. The processor's error is not passed on, because it
 * may contain a client secret.
 */
async function calling<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error;
    const status = error.statusCode ?? 0;
    // 409: another request with the same key is in progress. 429: the caller should retry later.
    const isRefused = status >= 400 && status < 500 && status !== 409 && status !== 429 && status !== 401;
    if (isRefused) throw new ProcessorRefusedError(error.code ?? error.type, status === 404);
    throw new ProcessorUnavailableError(`The payment processor did not answer (${error.type} ${status})`);
  }
}
