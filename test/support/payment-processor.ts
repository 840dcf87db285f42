import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import Stripe from 'stripe';
import { paymentTestServer } from '../../ops/setup/toolchain/locations.mjs';
import { processorSettings } from './processor-settings.ts';
import { until } from './until.ts';

/** Cards of the processor's test mode. */
export const cards = {
  good: '4242424242424242',
  otherGood: '5555555555554444',
  /** Refused when it is added. */
  declined: '4000000000000002',
  /** Can be added, and is refused when it is charged. */
  declinedLater: '4000000000000341',
  /** Can be added, and are refused when they are charged. Each has its own reason (`declineCodes`). */
  withoutFunds: '4000000000009995',
  expired: '4000000000000069',
  lost: '4000000000009987',
  /** Its bank asks for confirmation by the owner, when it is added and when it is charged. */
  asksForOwner: '4000002500003155',
};

/**
 * The reason for which a card is declined. localstripe knows only one reason, so these cards are `cards.declinedLater`
 * there.
 */
export const declineCodes: Readonly<Record<string, string>> = {
  [cards.withoutFunds]: 'insufficient_funds',
  [cards.expired]: 'expired_card',
  [cards.lost]: 'lost_card',
};

// biome-ignore lint/suspicious/noExplicitAny: objects of the processor's API
type Json = any;

/** A notification of the processor, ready to be delivered. */
export interface Notice {
  type: string;
  body: string;
  signature: string;
}

interface Answer {
  status: number;
  /** Its content type. */
  type: string;
  body: string;
}

interface Fault {
  path: RegExp;
  /**
   * `lost`: the request is not executed. `unanswered`: it is executed and the reply is lost. `hung`: it is executed and
   * no reply is sent.
   */
  kind: 'lost' | 'unanswered' | 'hung';
}

/** A request that has arrived, or that has been executed and not yet answered. */
export interface ProcessorMoment {
  when: 'arrived' | 'done';
  /** As `POST /v1/…`. */
  name: string;
  body: string;
  /** Null: the request has not been executed. */
  answer: string | null;
  /** Whether the client has closed the connection. */
  isGone(): boolean;
}

/** Runs localstripe on loopback without its file in /tmp. */
const program = `
import socket
from aiohttp import web
import localstripe.resources as resources
resources.Store.dump_to_disk = lambda self: None
from localstripe.server import app
listening = socket.create_server(('127.0.0.1', 0))
print(listening.getsockname()[1], flush=True)
web.run_app(app, sock=listening, print=None, access_log=None)
`;

/**
 * A payment processor on the network: localstripe behind a server that adds missing functions. These are idempotency
 * keys, notifications of added and removed cards, charges without the owner, a second try of a declined charge, reasons
 * of declines, removed cards, limits of refunds, and faults.
 */
export class TestProcessor {
  readonly publishableKey = 'pk_test_platform';
  readonly secretKey = 'sk_test_platform_only';
  readonly webhookSecret = 'whsec_platform_only';
  /** Notifications that the processor would deliver, oldest first. */
  readonly notices: Notice[] = [];
  /** Requests that arrived, as `POST /v1/…`. */
  readonly requests: string[] = [];
  /** The maximum number of objects in a page of a list. */
  longestPage = 100;
  /** Lists show charges as made so many seconds earlier. */
  olderSeconds = 0;
  /** The status of new refunds: banks can be slow or return the money. */
  refundStatus: 'pending' | 'succeeded' | 'failed' = 'succeeded';
  /** A request waits for it at each of its moments. `cut`: its connection is closed then. */
  atRequest: (moment: ProcessorMoment) => Promise<'cut' | null> = async () => null;
  readonly #replies = new Map<string, { request: string; answer: Promise<Answer> }>();
  /** Payment methods that are declined when they are charged, with the reason. */
  readonly #declines = new Map<string, string>();
  readonly #gone = new Set<string>();
  readonly #server = http.createServer((request, response) => {
    // Its client has disconnected, or localstripe has ended, so no reply is possible.
    this.#serve(request, response).catch(() => request.socket.destroy());
  });
  #faults: Fault[] = [];
  #child: ChildProcess | null = null;
  #upstream = '';
  url = '';

  static async start(): Promise<TestProcessor> {
    const processor = new TestProcessor();
    const child = spawn('python3', ['-c', program], {
      env: { PATH: process.env.PATH, PYTHONPATH: paymentTestServer().packages, PYTHONDONTWRITEBYTECODE: '1' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    processor.#child = child;
    const [port] = await once(child.stdout, 'data');
    processor.#upstream = `http://127.0.0.1:${String(port).trim()}`;
    await until(() =>
      fetch(processor.#upstream).then(
        () => true,
        () => false,
      ),
    );
    // Only clients close idle connections, so no request arrives on a connection that is being closed.
    processor.#server.keepAliveTimeout = 0;
    processor.#server.unref();
    processor.#server.listen(0, '127.0.0.1');
    await once(processor.#server, 'listening');
    processor.url = `http://127.0.0.1:${(processor.#server.address() as AddressInfo).port}`;
    const hook = { url: `${processor.url}/_notices`, secret: processor.webhookSecret };
    await processor.#ask('POST', '/_config/webhooks/platform', hook);
    return processor;
  }

  /** The address of its script for browsers. */
  get scriptUrl(): string {
    return `${this.url}/js.stripe.com/v3/`;
  }

  /** Settings of a platform that uses this processor. */
  get env(): Record<string, string> {
    return processorSettings(this.url);
  }

  /** The next request to a path that matches fails, and so does its repetition: the SDK repeats one whose connection is cut. */
  failNext(pathPattern: RegExp, kind: Fault['kind']): void {
    this.#faults.push({ path: pathPattern, kind }, { path: pathPattern, kind });
  }

  /** Removes all faults. */
  heal(): void {
    this.#faults = [];
  }

  /** Does what a browser does with the client secret. @returns the setup intent, or the refusal */
  async addCard(setup: { setup_intent_id: string; client_secret: string }, number: string): Promise<Json> {
    const card = { number, exp_month: 12, exp_year: 2040, cvc: '123' };
    const reply = await fetch(`${this.url}/v1/setup_intents/${setup.setup_intent_id}/confirm`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        key: this.publishableKey,
        client_secret: setup.client_secret,
        payment_method_data: { type: 'card', card },
      }),
    });
    return reply.json();
  }

  /** Every charge that has moved money, by the processor's own records. @param customer whose; by default the last hundred of all */
  async charges(customer?: string): Promise<Json[]> {
    const { data } = await this.#ask('GET', `/v1/charges?limit=100${customer ? `&customer=${customer}` : ''}`);
    return data.filter((charge: Json) => charge.status === 'succeeded');
  }

  /** Cancels a charge, as in the processor's dashboard. */
  async cancel(paymentIntentId: string): Promise<void> {
    await this.#ask('POST', `/v1/payment_intents/${paymentIntentId}/cancel`);
  }

  /** Refunds a part of a charge, as in the processor's dashboard. @param units in the smallest unit of the currency */
  async refund(paymentIntentId: string, units: number): Promise<void> {
    await this.#ask('POST', '/v1/refunds', { payment_intent: paymentIntentId, amount: units });
  }

  /** The refunds of a charge in the smallest unit, by the processor's own records. */
  async listRefunds(paymentIntentId: string): Promise<number[]> {
    const { data } = await this.#ask('GET', `/v1/refunds?limit=100&payment_intent=${paymentIntentId}`);
    return data.map((refund: Json) => refund.amount);
  }

  /** The notification of a type about an object. */
  async notice(type: string, id: string): Promise<Notice> {
    const find = () => this.notices.find((each) => each.type === type && each.body.includes(`"${id}"`));
    await until(() => find() !== undefined);
    return find()!;
  }

  /** An object of the processor. */
  get(objectPath: string): Promise<Json> {
    return this.#ask('GET', objectPath);
  }

  /** A notification that is signed now. */
  sign(type: string, object: Json, at = Math.floor(Date.now() / 1000), secret = this.webhookSecret): Notice {
    const id = `evt_${Math.random().toString(36).slice(2)}`;
    const body = JSON.stringify({ id, object: 'event', type, created: at, data: { object } });
    const stripe = new Stripe('sk_test_unused');
    const signature = stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at });
    return { type, body, signature };
  }

  /** Forgets the replies for idempotency keys, as the processor does after a day. */
  forgetKeys(): void {
    this.#replies.clear();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    if (this.#child && this.#child.exitCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('utf8');
    const target = request.url!;
    if (target === '/_notices') {
      const { type } = JSON.parse(body);
      this.notices.push({ type, body, signature: request.headers['stripe-signature'] as string });
      response.end();
      return;
    }
    const name = `${request.method} ${target.split('?', 1)[0]}`;
    this.requests.push(name);
    const fault = this.#faults.find((each) => each.path.test(name));
    this.#faults = this.#faults.filter((each) => each !== fault);
    const isGone = () => request.socket.destroyed;
    const isCut = async (when: ProcessorMoment['when'], carriedOut: string | null) =>
      (await this.atRequest({ when, name, body, answer: carriedOut, isGone })) === 'cut';
    if (fault?.kind === 'lost' || (await isCut('arrived', null))) return void request.socket.destroy();
    const {
      status,
      type,
      body: answer,
    } = await this.#once(request, `${target} ${body}`, () => this.#carryOut(request, target, body));
    if (fault?.kind === 'unanswered' || (await isCut('done', answer))) return void request.socket.destroy();
    if (fault?.kind === 'hung') return;
    const { origin } = request.headers;
    const forBrowsers = origin && { 'access-control-allow-origin': origin };
    response.writeHead(status, { 'content-type': type, ...forBrowsers }).end(answer);
  }

  /** A repeated idempotency key gets the first reply again, and is refused if the request differs. */
  #once(request: http.IncomingMessage, wanted: string, carryOut: () => Promise<Answer>): Promise<Answer> {
    const key = request.headers['idempotency-key'];
    if (request.method !== 'POST' || typeof key !== 'string') return carryOut();
    const kept = this.#replies.get(key) ?? { request: wanted, answer: carryOut() };
    this.#replies.set(key, kept);
    if (kept.request === wanted) return kept.answer;
    const error = { type: 'idempotency_error', message: 'The key was used with other parameters' };
    return Promise.resolve({ status: 400, type: 'application/json', body: JSON.stringify({ error }) });
  }

  async #carryOut(request: http.IncomingMessage, target: string, body: string): Promise<Answer> {
    if (request.method === 'GET' && target.startsWith('/v1/payment_intents?')) return this.#listCharges(target);
    if (request.method === 'POST' && target === '/v1/refunds') {
      const refused = await this.#refuseRefund(new URLSearchParams(body));
      if (refused) return refused;
    }
    const number = Object.keys(declineCodes).find((each) => body.includes(each));
    const confirmed = /^\/v1\/payment_intents\/(\w+)\/confirm$/.exec(target)?.[1];
    const gone = confirmed && this.#refuseGoneMethod(new URLSearchParams(body));
    if (gone) return gone;
    const wanted = confirmed
      ? await this.#prepareConfirmation(confirmed, new URLSearchParams(body))
      : withoutAllowedTypes(number ? body.replace(number, cards.declinedLater) : body);
    const reply = await fetch(`${this.#upstream}${target}`, {
      method: request.method!,
      headers: {
        'content-type': request.headers['content-type'] ?? 'application/x-www-form-urlencoded',
        ...(request.headers.authorization && { authorization: request.headers.authorization }),
      },
      ...(request.method === 'POST' && { body: wanted }),
    });
    let text = await reply.text();
    if (reply.ok && request.method === 'POST') await this.#afterwards(target, JSON.parse(text));
    if (reply.ok && number) this.#declines.set(JSON.parse(text).payment_method, declineCodes[number]!);
    if (target.startsWith('/v1/refunds'))
      text = text.replaceAll('"status": "succeeded"', `"status": "${this.refundStatus}"`);
    if (target.startsWith('/v1/payment_intents/')) text = this.#withDeclineCode(text);
    return { status: reply.status, type: reply.headers.get('content-type')!, body: text };
  }

  /** localstripe confirms a charge with its stored method, and only once. @returns the body to send */
  async #prepareConfirmation(id: string, wanted: URLSearchParams): Promise<string> {
    const intent = await this.#ask('GET', `/v1/payment_intents/${id}`);
    const method = wanted.get('payment_method');
    const isTriedAgain = intent.latest_charge?.status === 'failed';
    if (intent.status === 'succeeded' || (method === intent.payment_method && !isTriedAgain)) return '';
    await this.#ask('POST', `/v1/payment_intents/${id}`, {
      payment_method: method,
      latest_charge: null,
      next_action: null,
    });
    return '';
  }

  /** localstripe lists charges oldest first and ignores time limits. */
  async #listCharges(target: string): Promise<Answer> {
    const wanted = new URL(target, this.url).searchParams;
    const { data } = await this.#ask('GET', '/v1/payment_intents?limit=100000');
    const [from, until] = ['gte', 'lt'].map((bound) => Number(wanted.get(`created[${bound}]`)));
    const isAsked = (created: number) => created >= from! && created < until!;
    const made = data.toReversed().filter(({ created }: Json) => isAsked(created - this.olderSeconds));
    const after = made.findIndex(({ id }: Json) => id === wanted.get('starting_after'));
    const page = made.slice(after + 1, after + 1 + Math.min(this.longestPage, Number(wanted.get('limit'))));
    const hasMore = page.length > 0 && page.at(-1) !== made.at(-1);
    return {
      status: 200,
      type: 'application/json',
      body: JSON.stringify({ object: 'list', data: page, has_more: hasMore }),
    };
  }

  /** A removed method cannot be charged. localstripe would charge it. */
  #refuseGoneMethod(wanted: URLSearchParams): Answer | null {
    if (!this.#gone.has(wanted.get('payment_method') ?? '')) return null;
    const error = { type: 'invalid_request_error', message: 'The PaymentMethod was detached from its Customer' };
    return { status: 400, type: 'application/json', body: JSON.stringify({ error }) };
  }

  #withDeclineCode(text: string): string {
    const intent = JSON.parse(text);
    const code = this.#declines.get(intent.payment_method);
    if (!code || !intent.last_payment_error) return text;
    return JSON.stringify({ ...intent, last_payment_error: { ...intent.last_payment_error, decline_code: code } });
  }

  /** A refund cannot exceed the charge. localstripe would refund any amount. */
  async #refuseRefund(wanted: URLSearchParams): Promise<Answer | null> {
    const { latest_charge: charge } = await this.#ask('GET', `/v1/payment_intents/${wanted.get('payment_intent')}`);
    if (charge && Number(wanted.get('amount')) <= charge.amount - charge.amount_refunded) return null;
    const error = { type: 'invalid_request_error', code: 'charge_already_refunded', message: 'Too much' };
    return { status: 400, type: 'application/json', body: JSON.stringify({ error }) };
  }

  async #afterwards(target: string, object: Json): Promise<void> {
    if (/^\/v1\/setup_intents\/\w+\/confirm$/.test(target) && object.status === 'succeeded') {
      await this.#ask('POST', `/v1/payment_methods/${object.payment_method}/attach`, { customer: object.customer });
      this.notices.push(this.sign('setup_intent.succeeded', object));
    }
    if (target === '/v1/refunds') this.notices.push(this.sign('refund.created', object));
    if (/^\/v1\/payment_methods\/\w+\/detach$/.test(target)) {
      this.#gone.add(object.id);
      this.notices.push(this.sign('payment_method.detached', object));
    }
  }

  async #ask(method: string, target: string, body?: Json): Promise<Json> {
    const reply = await fetch(`${this.#upstream}${target}`, {
      method,
      headers: { authorization: `Bearer ${this.secretKey}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${target}: ${reply.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }
}

/** localstripe accepts only cards and rejects the list of allowed types. */
function withoutAllowedTypes(body: string): string {
  if (!body.includes('allowed_payment_method_types')) return body;
  const fields = new URLSearchParams(body);
  for (const name of [...fields.keys()]) if (name.startsWith('allowed_payment_method_types')) fields.delete(name);
  return fields.toString();
}
