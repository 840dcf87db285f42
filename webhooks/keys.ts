import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import type { PlatformSecrets } from '../config/secrets.ts';

/** PKCS #8 of an ed25519 key, up to its 32 bytes. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/** What an endpoint's requests are signed with: an ed25519 key that is derived, and a secret of the caller's. */
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

  /** @param secret `whsec_…` @returns what is stored of it */
  seal(endpointId: string, secret: string): string {
    return this.#secrets.sealWebhookSecret(endpointId, secret);
  }

  /** The bytes that sign. */
  open(endpointId: string, sealed: string): Buffer {
    return Buffer.from(this.#secrets.openWebhookSecret(endpointId, sealed).slice('whsec_'.length), 'base64');
  }
}
