import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import Stripe from 'stripe';
import { paymentTestServer } from '../../ops/setup/toolchain/locations.mjs';
import { freePort } from './free-port.ts';
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
  /** Its bank asks for its owner, when it is added and when it is charged. */
  asksForOwner: '4000002500003155',
};

// biome-ignore lint/suspicious/noExplicitAny: objects of the processor's API
type Json = any;

/** A notification of the processor, ready to be delivered. */
export interface Notice {
  type: string;
  body: string;
  signature: string;
}

interface Fault {
  path: RegExp;
  /** `lost`: it is not carried out. `unanswered`: it is, and the reply is lost. */
  kind: 'lost' | 'unanswered';
}

/** localstripe on loopback, without its file in /tmp. */
const program = `
import sys
from aiohttp import web
import localstripe.resources as resources
resources.Store.dump_to_disk = lambda self: None
from localstripe.server import app
web.run_app(app, host='127.0.0.1', port=int(sys.argv[1]), print=None, access_log=None)
`;

/**
 * A payment processor on the network: localstripe, behind a server that adds what it lacks. That is idempotency keys, notices of
 * cards that were added and removed, charges without the owner, a second try of a charge that was declined, and faults.
 */
export class TestProcessor {
  readonly publishableKey = 'pk_test_platform';
  readonly secretKey = 'sk_test_platform_only';
  readonly webhookSecret = 'whsec_platform_only';
  /** What the processor would deliver, oldest first. */
  readonly notices: Notice[] = [];
  /** Requests that arrived, as `POST /v1/…`. */
  readonly requests: string[] = [];
  readonly #replies = new Map<string, Promise<{ status: number; body: string }>>();
  readonly #server = http.createServer((request, response) => void this.#serve(request, response));
  #faults: Fault[] = [];
  #child: ChildProcess | null = null;
  #upstream = '';
  url = '';

  static async start(): Promise<TestProcessor> {
    const processor = new TestProcessor();
    const port = await freePort();
    processor.#upstream = `http://127.0.0.1:${port}`;
    processor.#child = spawn('python3', ['-c', program, String(port)], {
      env: { PATH: process.env.PATH, PYTHONPATH: paymentTestServer().packages, PYTHONDONTWRITEBYTECODE: '1' },
      stdio: 'ignore',
    });
    await until(() =>
      fetch(processor.#upstream).then(
        () => true,
        () => false,
      ),
    );
    processor.#server.unref();
    processor.#server.listen(0, '127.0.0.1');
    await once(processor.#server, 'listening');
    processor.url = `http://127.0.0.1:${(processor.#server.address() as AddressInfo).port}`;
    const hook = { url: `${processor.url}/_notices`, secret: processor.webhookSecret };
    await processor.#ask('POST', '/_config/webhooks/platform', hook);
    return processor;
  }

  /** Settings of a platform that uses it. */
  get env(): Record<string, string> {
    return processorSettings(this.url);
  }

  /** The next request to a path that matches fails, and so does its repetition: the SDK repeats one whose connection is cut. */
  failNext(pathOf: RegExp, kind: Fault['kind']): void {
    this.#faults.push({ path: pathOf, kind }, { path: pathOf, kind });
  }

  /** What a browser does with the client secret. @returns the setup intent, or the refusal */
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

  /** Every charge that has moved money, by the processor's own records. */
  async charges(): Promise<Json[]> {
    const { data } = await this.#ask('GET', '/v1/charges?limit=100');
    return data.filter((charge: Json) => charge.status === 'succeeded');
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

  /** A notification with a signature of now. */
  sign(type: string, object: Json, at = Math.floor(Date.now() / 1000), secret = this.webhookSecret): Notice {
    const id = `evt_${Math.random().toString(36).slice(2)}`;
    const body = JSON.stringify({ id, object: 'event', type, created: at, data: { object } });
    const stripe = new Stripe('sk_test_unused');
    const signature = stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at });
    return { type, body, signature };
  }

  /** Forgets what it has answered to idempotency keys, as the processor does after a day. */
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
    if (fault?.kind === 'lost') return void request.socket.destroy();
    const { status, body: answer } = await this.#once(request, () => this.#carryOut(request, target, body));
    if (fault?.kind === 'unanswered') return void request.socket.destroy();
    response.writeHead(status, { 'content-type': 'application/json' }).end(answer);
  }

  /** The same idempotency key gives the first reply again. */
  #once(request: http.IncomingMessage, carryOut: () => Promise<{ status: number; body: string }>) {
    const key = request.headers['idempotency-key'];
    if (request.method !== 'POST' || typeof key !== 'string') return carryOut();
    const kept = this.#replies.get(key) ?? carryOut();
    this.#replies.set(key, kept);
    return kept;
  }

  async #carryOut(request: http.IncomingMessage, target: string, body: string) {
    const confirmed = /^\/v1\/payment_intents\/(\w+)\/confirm$/.exec(target)?.[1];
    const wanted = confirmed
      ? await this.#prepareConfirmation(confirmed, new URLSearchParams(body))
      : withoutAllowedTypes(body);
    const reply = await fetch(`${this.#upstream}${target}`, {
      method: request.method!,
      headers: {
        'content-type': request.headers['content-type'] ?? 'application/x-www-form-urlencoded',
        ...(request.headers.authorization && { authorization: request.headers.authorization }),
      },
      ...(request.method === 'POST' && { body: wanted }),
    });
    const text = await reply.text();
    if (reply.ok && request.method === 'POST') await this.#afterwards(target, JSON.parse(text));
    return { status: reply.status, body: text };
  }

  /** localstripe confirms with the method that a charge has, once. @returns the body that it takes */
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

  async #afterwards(target: string, object: Json): Promise<void> {
    if (/^\/v1\/setup_intents\/\w+\/confirm$/.test(target) && object.status === 'succeeded') {
      await this.#ask('POST', `/v1/payment_methods/${object.payment_method}/attach`, { customer: object.customer });
      this.notices.push(this.sign('setup_intent.succeeded', object));
    }
    if (/^\/v1\/payment_methods\/\w+\/detach$/.test(target)) {
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

/** localstripe takes cards alone, and knows no list of what is allowed. */
function withoutAllowedTypes(body: string): string {
  if (!body.includes('allowed_payment_method_types')) return body;
  const fields = new URLSearchParams(body);
  for (const name of [...fields.keys()]) if (name.startsWith('allowed_payment_method_types')) fields.delete(name);
  return fields.toString();
}
