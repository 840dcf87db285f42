import { createHmac, hkdfSync } from 'node:crypto';
import type { SandboxId, TemplateId, WebhookEndpointId } from '../domain/ids.ts';
import { open, seal } from './sealed-box.ts';

/**
 * Every secret is derived from PLATFORM_SECRET_KEY and none is stored: each replica with the key can derive a sandbox's
 * token, and a copy of the database does not contain it.
 */
export interface PlatformSecrets {
  /** Keys for workflow payloads by key id, 32 bytes each. The first encrypts, all decrypt. */
  codecKeys: ReadonlyMap<string, Buffer>;
  /** The access token of the codec server. */
  codecAccessToken: string;
  /** The access token of the metrics of all processes. */
  metricsToken: string;
  /** `envd_access_token`: the token of a sandbox's owner for its agent. */
  agentToken(sandboxId: SandboxId): string;
  /** The token for the agent's platform paths. It never leaves the platform. */
  platformToken(sandboxId: SandboxId): string;
  /** Signs the tokens that open the stream of one run. */
  execTokenKey: Buffer;
  /** Signs the links that add a card. */
  cardLinkKey: Buffer;
  /** The key for access tokens with this key id in their header. */
  accessTokenKey(keyId: string): Buffer;
  /** Part of the hashes of passwords, so that a copy of the database is not enough to guess passwords. */
  passwordPepper: Buffer;
  /** The token in the link of a mail. It is the same at each attempt to send the mail. */
  linkToken(purpose: string, linkId: string): string;
  /** Signs the hidden fields of a page's form. */
  formKey: Buffer;
  /** Encrypts a browser's cookie during the sign-in at an identity provider. */
  pendingSignInKey: Buffer;
  /** Encrypts credentials of mounts so that only the sandbox's host can decrypt them. */
  sealFor(sandboxId: SandboxId, document: unknown): string;
  /** @throws {Error} when it was not encrypted for this sandbox */
  openFor<Document>(sandboxId: SandboxId, sealed: string): Document;
  /** Encrypts the password of an external registry until the import of a template has used it. */
  sealRegistryPassword(templateId: TemplateId, password: string): string;
  /** @throws {Error} when it was not encrypted for this template */
  openRegistryPassword(templateId: TemplateId, sealed: string): string;
  /** The 32-byte seed of an endpoint's ed25519 key. Each number gives another key. */
  webhookKeySeed(endpointId: WebhookEndpointId, keyNumber: number): Buffer;
  /** Encrypts a caller's secret for the signatures of a webhook endpoint. */
  sealWebhookSecret(endpointId: WebhookEndpointId, secret: string): string;
  /** @throws {Error} when it was not encrypted for this endpoint */
  openWebhookSecret(endpointId: WebhookEndpointId, sealed: string): string;
}

/** @throws when the settings' codec keys are not `kid:base64 of 32 bytes` */
export function deriveSecrets(settings: {
  PLATFORM_SECRET_KEY: string;
  PLATFORM_CODEC_KEYS?: string | undefined;
}): PlatformSecrets {
  const master = Buffer.from(settings.PLATFORM_SECRET_KEY, 'base64');
  const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', master, 'sandbox-platform', purpose, 32));
  const agentKey = derive('agent-token');
  const platformKey = derive('platform-token');
  const hostKey = derive('sealed-for-host');
  const registryKey = derive('registry-password');
  const linkKey = derive('account-link');
  const webhookKey = derive('webhook-signature');
  const webhookSecretKey = derive('webhook-secret');
  const tokenFor = (key: Buffer, subject: string) => createHmac('sha256', key).update(subject).digest('base64url');
  return {
    codecKeys: parseCodecKeys(settings.PLATFORM_CODEC_KEYS) ?? new Map([['derived-1', derive('payload-codec')]]),
    codecAccessToken: derive('codec-access').toString('base64url'),
    metricsToken: derive('metrics').toString('base64url'),
    agentToken: (sandboxId) => tokenFor(agentKey, sandboxId),
    platformToken: (sandboxId) => tokenFor(platformKey, sandboxId),
    execTokenKey: derive('exec-token'),
    cardLinkKey: derive('card-link'),
    accessTokenKey: (keyId) => derive(`access-token ${keyId}`),
    passwordPepper: derive('password-pepper'),
    linkToken: (purpose, linkId) => tokenFor(linkKey, `${purpose} ${linkId}`),
    formKey: derive('form'),
    pendingSignInKey: derive('pending-sign-in'),
    sealFor: (sandboxId, document) => seal(hostKey, sandboxId, document),
    openFor: (sandboxId, sealed) => open(hostKey, sandboxId, sealed),
    sealRegistryPassword: (templateId, password) => seal(registryKey, templateId, password),
    openRegistryPassword: (templateId, sealed) => open(registryKey, templateId, sealed),
    webhookKeySeed: (endpointId, keyNumber) =>
      createHmac('sha256', webhookKey).update(`${endpointId} ${keyNumber}`).digest(),
    sealWebhookSecret: (endpointId, secret) => seal(webhookSecretKey, endpointId, secret),
    openWebhookSecret: (endpointId, sealed) => open(webhookSecretKey, endpointId, sealed),
  };
}

function parseCodecKeys(text: string | undefined): Map<string, Buffer> | null {
  if (!text) return null;
  const keys = new Map<string, Buffer>();
  for (const item of text.split(',')) {
    const [kid = '', encoded = ''] = item.trim().split(':');
    const key = Buffer.from(encoded, 'base64');
    if (!/^[\w.-]{1,40}$/.test(kid) || key.length !== 32) {
      throw new Error('PLATFORM_CODEC_KEYS: each item must be an id, a colon, and base64 of exactly 32 bytes');
    }
    keys.set(kid, key);
  }
  return keys;
}
