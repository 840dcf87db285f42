import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import type { WebhookEndpointId } from '../../domain/ids.ts';
import type { PlatformSecrets } from '../../platform/config/secrets.ts';

/** The PKCS #8 prefix of an ed25519 key, before its 32 bytes. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

const keptKeys = 1000;

type WebhookSecrets = Pick<
  PlatformSecrets,
  'secretKeyNumber' | 'webhookKeySeed' | 'sealWebhookSecret' | 'openWebhookSecret'
>;

/** The keys that sign an endpoint's requests: a derived ed25519 key, and a secret that the caller knows. */
export class WebhookKeys {
  readonly #secrets: WebhookSecrets;

  readonly #privateKeys = new Map<string, KeyObject>();

  constructor(secrets: WebhookSecrets) {
    this.#secrets = secrets;
  }

  /** The number of the secret key of new keys. */
  get secretKeyNumber(): number {
    return this.#secrets.secretKeyNumber;
  }

  /** Derives the key. The newest keys are cached, because deriving takes longer than signing. */
  privateKey(endpointId: WebhookEndpointId, keyNumber: number, secretKeyNumber: number): KeyObject {
    const name = `${endpointId}/${keyNumber}/${secretKeyNumber}`;
    const known = this.#privateKeys.get(name);
    if (known) return known;
    const seed = this.#secrets.webhookKeySeed(endpointId, keyNumber, secretKeyNumber);
    const key = createPrivateKey({ key: Buffer.concat([ed25519Prefix, seed]), format: 'der', type: 'pkcs8' });
    const [oldest] = this.#privateKeys.keys();
    if (this.#privateKeys.size >= keptKeys) this.#privateKeys.delete(oldest!);
    this.#privateKeys.set(name, key);
    return key;
  }

  /** `whpk_` and the base64 of the 32 bytes, the format of Standard Webhooks. */
  publicKey(endpointId: WebhookEndpointId, keyNumber: number, secretKeyNumber: number): string {
    const der = createPublicKey(this.privateKey(endpointId, keyNumber, secretKeyNumber)).export({
      format: 'der',
      type: 'spki',
    });
    return `whpk_${der.subarray(-32).toString('base64')}`;
  }

  /**
   * @param secret `whsec_…`
   * @returns the stored form
   */
  seal(endpointId: WebhookEndpointId, secret: string): string {
    return this.#secrets.sealWebhookSecret(endpointId, secret);
  }

  /** The bytes of the secret that signs requests. */
  open(endpointId: WebhookEndpointId, sealed: string): Buffer {
    return Buffer.from(this.#secrets.openWebhookSecret(endpointId, sealed).slice('whsec_'.length), 'base64');
  }
}
