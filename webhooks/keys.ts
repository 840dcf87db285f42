import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import type { PlatformSecrets } from '../config/secrets.ts';
import type { WebhookEndpointId } from '../domain/ids.ts';

/** The PKCS #8 prefix of an ed25519 key, before its 32 bytes. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

const keptKeys = 1000;

/** What an endpoint's requests are signed with: an ed25519 key that is derived, and a secret of the caller's. */
export class WebhookKeys {
  readonly #secrets: Pick<PlatformSecrets, 'webhookKeySeed' | 'sealWebhookSecret' | 'openWebhookSecret'>;

  readonly #privateKeys = new Map<string, KeyObject>();

  constructor(secrets: Pick<PlatformSecrets, 'webhookKeySeed' | 'sealWebhookSecret' | 'openWebhookSecret'>) {
    this.#secrets = secrets;
  }

  /** Derives the key; that takes longer than a signature, so the newest are kept. */
  privateKey(endpointId: WebhookEndpointId, keyNumber: number): KeyObject {
    const name = `${endpointId}/${keyNumber}`;
    const known = this.#privateKeys.get(name);
    if (known) return known;
    const seed = this.#secrets.webhookKeySeed(endpointId, keyNumber);
    const key = createPrivateKey({ key: Buffer.concat([ed25519Prefix, seed]), format: 'der', type: 'pkcs8' });
    const [oldest] = this.#privateKeys.keys();
    if (this.#privateKeys.size >= keptKeys) this.#privateKeys.delete(oldest!);
    this.#privateKeys.set(name, key);
    return key;
  }

  /** `whpk_` and base64 of the 32 bytes, as Standard Webhooks writes it. */
  publicKey(endpointId: WebhookEndpointId, keyNumber: number): string {
    const der = createPublicKey(this.privateKey(endpointId, keyNumber)).export({ format: 'der', type: 'spki' });
    return `whpk_${der.subarray(-32).toString('base64')}`;
  }

  /**
   * @param secret `whsec_…`
   * @returns the form in which it is stored
   */
  seal(endpointId: WebhookEndpointId, secret: string): string {
    return this.#secrets.sealWebhookSecret(endpointId, secret);
  }

  /** The secret's bytes, which sign. */
  open(endpointId: WebhookEndpointId, sealed: string): Buffer {
    return Buffer.from(this.#secrets.openWebhookSecret(endpointId, sealed).slice('whsec_'.length), 'base64');
  }
}
