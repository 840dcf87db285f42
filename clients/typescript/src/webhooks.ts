import { createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from 'node:crypto';
import type { ApiClient } from './api-client.ts';
import { SandboxError } from './errors.ts';
import type { CreateWebhookBody, Webhook, WebhookDelivery } from './generated/api.ts';
import { allPages } from './pages.ts';
import type { RequestOptions } from './request-options.ts';

export interface CreateWebhookOptions extends RequestOptions {
  /** `whsec_…`: deliveries have a `v1` signature, too. */
  secret?: string;
  description?: string;
  /** Every other field of `POST /v1/webhooks`. */
  more?: Partial<CreateWebhookBody>;
}

export interface VerifyOptions {
  /** The largest difference between the time of the delivery and now. Default 300. */
  toleranceSeconds?: number;
}

/** An event, the body of a delivery. `docs/webhooks.md` has the fields of each type. */
export interface WebhookEvent {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

type Headers = Readonly<Record<string, string | string[] | undefined>> | globalThis.Headers;

/** Endpoints to which the platform sends events. */
export class Webhooks {
  readonly #api: ApiClient;

  constructor(api: ApiClient) {
    this.#api = api;
  }

  /**
   * Checks the signature of a delivery (Standard Webhooks) and returns its event.
   * @param body the body of the request as it came; a JSON text that was made again has other bytes
   * @param key `public_key` of the endpoint (`whpk_…`), or its secret (`whsec_…`)
   * @throws {SandboxError} `invalid_signature`
   */
  static verify(
    body: string | Uint8Array,
    headers: Headers,
    key: string,
    { toleranceSeconds = 300 }: VerifyOptions = {},
  ): WebhookEvent {
    const entries = headers instanceof globalThis.Headers ? headers.entries() : Object.entries(headers);
    const values = new Map([...entries].map(([name, value]) => [name.toLowerCase(), value]));
    const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => {
      const value = values.get(name);
      if (typeof value !== 'string') throw new SandboxError('invalid_signature', `The header ${name} is missing`);
      return value;
    }) as [string, string, string];
    const ageSeconds = Math.abs(Date.now() / 1000 - Number(timestamp));
    if (!(ageSeconds <= toleranceSeconds)) {
      throw new SandboxError('invalid_signature', `The delivery is ${Math.round(ageSeconds)} seconds old or early`);
    }
    const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), Buffer.from(body as Uint8Array)]);
    const isValid = checkWith(key, signed);
    if (!signatures.split(' ').some(isValid)) {
      throw new SandboxError('invalid_signature', 'No signature of the delivery is valid for this key');
    }
    return JSON.parse(Buffer.from(body as Uint8Array).toString('utf8'));
  }

  /** The endpoints, newest first. */
  list(options: RequestOptions = {}): AsyncGenerator<Webhook, void> {
    return allPages(async (query) => {
      const { webhooks, pagination } = await this.#api.call('listWebhooks', { query, ...options });
      return { items: webhooks, pagination };
    });
  }

  /** @param eventTypes types, families such as `sandbox.*`, or `*` */
  create(url: string, eventTypes: string[], options: CreateWebhookOptions = {}): Promise<Webhook> {
    const { secret, description, more, ...request } = options;
    const body = { url, event_types: eventTypes, secret: secret ?? null, description: description ?? null, ...more };
    return this.#api.call('createWebhook', { body, ...request });
  }

  /** Sends a test event. The reply is the delivery, which may still be in progress. */
  test(endpointId: string, options: RequestOptions = {}): Promise<WebhookDelivery> {
    return this.#api.call('sendTestEvent', { path: { endpoint_id: endpointId }, ...options });
  }

  async delete(endpointId: string, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('deleteWebhook', { path: { endpoint_id: endpointId }, ...options });
  }
}

/** The DER head of an ed25519 public key. */
const ed25519Head = Buffer.from('302a300506032b6570032100', 'hex');

/** A check of one signature such as `v1,…` or `v1a,…`. Signatures of another kind are not valid. */
function checkWith(key: string, signed: Buffer): (signature: string) => boolean {
  const [, kind, base64 = ''] = /^(whpk|whsec)_(.+)$/.exec(key) ?? [];
  const bytes = Buffer.from(base64, 'base64');
  if (kind === 'whsec') {
    const expected = createHmac('sha256', bytes).update(signed).digest();
    return (signature) => {
      const given = Buffer.from(signature.replace(/^v1,/, ''), 'base64');
      return signature.startsWith('v1,') && given.length === expected.length && timingSafeEqual(given, expected);
    };
  }
  if (kind !== 'whpk' || bytes.length !== 32) {
    throw new SandboxError('not_configured', 'The key must be the public key (whpk_…) or the secret (whsec_…)');
  }
  const publicKey = createPublicKey({ key: Buffer.concat([ed25519Head, bytes]), format: 'der', type: 'spki' });
  return (signature) =>
    signature.startsWith('v1a,') && verifySignature(null, signed, publicKey, Buffer.from(signature.slice(4), 'base64'));
}
