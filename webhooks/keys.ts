import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import type { PlatformSecrets } from '../config/secrets.ts';

/** The PKCS #8 prefix of an ed25519 key, before its 32 bytes. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The signing keys of an endpoint: a derived ed25519 key, and the caller's secret. */
export class WebhookKeys {
  readonly #secrets: Pick<PlatformSecrets, 'webhookKeySeed' | 'sealWebhookSecret' | 'openWebhookSecret'>;

  constructor(secrets: Pick<PlatformSecrets, 'webhookKeySeed' | 'sealWebhookSecret' | 'openWebhookSecret'>) {
    this.#secrets = secrets;
  }

  privateKey(endpointId: string, keyNumber: number): KeyObject {
    const seed = this.#secrets.webhookKeySeed(endpointId, keyNumber);
    return createPrivateKey({ key: Buffer.concat([ed25519Prefix, seed]), format: 'der', type: 'pkcs8' });
  }

  /** `whpk_` and base64 of the 32 bytes, as Standard Webhooks writes it. */
  publicKey(endpointId: string, keyNumber: number): string {
    const der = createPublicKey(this.privateKey(endpointId, keyNumber)).export({ format: 'der', type: 'spki' });
    return `whpk_${der.subarray(-32).toString('base64')}`;
  }

  /**
   * @param secret `whsec_…`
   * @returns the form in which it is stored
   */
  seal(endpointId: string, secret: string): string {
    return this.#secrets.sealWebhookSecret(endpointId, secret);
  }

  /** The secret's bytes, which sign. */
  open(endpointId: string, sealed: string): Buffer {
    return Buffer.from(this.#secrets.openWebhookSecret(endpointId, sealed).slice('whsec_'.length), 'base64');
  }
}
