import { createHmac } from 'node:crypto';
import type { SandboxId, TemplateId, WebhookEndpointId } from '../../domain/ids.ts';
import { open, seal } from './sealed-box.ts';
import { deriveKey, SecretKeys } from './secret-keys.ts';

/**
 * Every secret is derived from a secret key and none is stored: each replica with the key can derive a sandbox's token,
 * and a copy of the database does not contain it. What outlives a change of the key says which key it was made with: by
 * a column, or by a number in front of the text (no number: the first key).
 */
export interface PlatformSecrets {
  /** The number of the secret key for what is made now. */
  readonly secretKeyNumber: number;
  /** Keys for workflow payloads by key id, 32 bytes each. The first encrypts, all decrypt. */
  readonly codecKeys: ReadonlyMap<string, Buffer>;
  /** `envd_access_token`: the token of a sandbox's owner for its agent. */
  agentToken(sandboxId: SandboxId, secretKeyNumber: number): string;
  /** The token for the agent's platform paths. It never leaves the platform. */
  platformToken(sandboxId: SandboxId, secretKeyNumber: number): string;
  /** Sign the tokens that open the stream of one execution. Of these and all lists of keys, the first signs, all verify. */
  execTokenKeys(): Buffer[];
  /** Sign the cursors of lists. */
  listCursorKeys(): Buffer[];
  /** Sign the addresses of clients whose requests the gateway forwards to the API. */
  clientAddressKeys(): Buffer[];
  /** Sign the links that add a card. */
  cardLinkKeys(): Buffer[];
  /** The numbers of the secret keys whose signatures are accepted, that of new signatures first. */
  readonly acceptedKeyNumbers: number[];
  /** The key for access tokens with this key id in their header. */
  accessTokenKey(keyId: string, secretKeyNumber: number): Buffer;
  /** Part of the hashes of passwords, so that a copy of the database is not enough to guess passwords. */
  passwordPepper(secretKeyNumber: number): Buffer;
  /** The token in the link of a mail. It is the same at each attempt to send the mail. */
  linkToken(purpose: string, linkId: string): string;
  /** Encrypt a browser's cookie during the sign-in at an identity provider. */
  pendingSignInKeys(): Buffer[];
  /** Encrypts credentials of mounts so that only the sandbox's host can decrypt them. */
  sealFor(sandboxId: SandboxId, document: unknown): string;
  /** @throws {Error} when it was not encrypted for this sandbox */
  openFor<Document>(sandboxId: SandboxId, sealed: string): Document;
  /** Encrypts the password of an external registry until the import of a template has used it. */
  sealRegistryPassword(templateId: TemplateId, password: string): string;
  /** @throws {Error} when it was not encrypted for this template */
  openRegistryPassword(templateId: TemplateId, sealed: string): string;
  /** The 32-byte seed of an endpoint's ed25519 key. Each number gives another key. */
  webhookKeySeed(endpointId: WebhookEndpointId, keyNumber: number, secretKeyNumber: number): Buffer;
  /** Encrypts a caller's secret for the signatures of a webhook endpoint. */
  sealWebhookSecret(endpointId: WebhookEndpointId, secret: string): string;
  /** @throws {Error} when it was not encrypted for this endpoint */
  openWebhookSecret(endpointId: WebhookEndpointId, sealed: string): string;
}

/**
 * @param keys without them, PLATFORM_SECRET_KEY is the only key there has been
 * @throws when the settings' codec keys are not `kid:base64 of 32 bytes`
 */
export function deriveSecrets(
  settings: { PLATFORM_SECRET_KEY: string; PLATFORM_CODEC_KEYS?: string | undefined },
  keys = SecretKeys.only(settings.PLATFORM_SECRET_KEY),
): PlatformSecrets {
  const derived = new Map<string, Buffer>();
  /** Only for a few purposes, because each result is kept. */
  const derive = (purpose: string, number: number) => {
    const name = `${number} ${purpose}`;
    const key = derived.get(name) ?? deriveKey(keys.key(number), purpose);
    derived.set(name, key);
    return key;
  };
  const accepted = (purpose: string) => () => keys.accepted.map((number) => derive(purpose, number));
  const tokenFor = (key: Buffer, subject: string) => createHmac('sha256', key).update(subject).digest('base64url');
  const sealFor = (purpose: string) => (id: string, document: unknown) =>
    numbered(keys.current, seal(derive(purpose, keys.current), id, document));
  const openFor =
    (purpose: string) =>
    <Document>(id: string, text: string) => {
      const { number, rest } = parseNumbered(text);
      return open<Document>(derive(purpose, number), id, rest);
    };
  const givenCodecKeys = parseCodecKeys(settings.PLATFORM_CODEC_KEYS);
  return {
    get secretKeyNumber() {
      return keys.current;
    },
    get codecKeys() {
      return (
        givenCodecKeys ??
        new Map(keys.numbers.map((number) => [`derived-${number}`, derive('payload-codec', number)] as const))
      );
    },
    agentToken: (sandboxId, number) => tokenFor(derive('agent-token', number), sandboxId),
    platformToken: (sandboxId, number) => tokenFor(derive('platform-token', number), sandboxId),
    execTokenKeys: accepted('exec-token'),
    listCursorKeys: accepted('list-cursor'),
    clientAddressKeys: accepted('client-address'),
    cardLinkKeys: accepted('card-link'),
    get acceptedKeyNumbers() {
      return keys.accepted;
    },
    accessTokenKey: (keyId, number) => deriveKey(keys.key(number), `access-token ${keyId}`),
    passwordPepper: (number) => derive('password-pepper', number),
    linkToken: (purpose, linkId) => tokenFor(derive('account-link', keys.current), `${purpose} ${linkId}`),
    pendingSignInKeys: accepted('pending-sign-in'),
    sealFor: sealFor('sealed-for-host'),
    openFor: openFor('sealed-for-host'),
    sealRegistryPassword: sealFor('registry-password'),
    openRegistryPassword: openFor('registry-password'),
    webhookKeySeed: (endpointId, keyNumber, number) =>
      createHmac('sha256', derive('webhook-signature', number)).update(`${endpointId} ${keyNumber}`).digest(),
    sealWebhookSecret: sealFor('webhook-secret'),
    openWebhookSecret: openFor('webhook-secret'),
  };
}

/** Tokens of the operator. They depend only on the settings, so they need no database. */
export interface OperatorTokens {
  /** The access tokens of the codec server: the one in use, and during a change of the secret key the former one. */
  codecAccess: string[];
  /** The access tokens of the metrics of all processes, likewise. */
  metrics: string[];
}

export function operatorTokens(settings: {
  PLATFORM_SECRET_KEY: string;
  PLATFORM_PREVIOUS_SECRET_KEY?: string | undefined;
}): OperatorTokens {
  const given = [settings.PLATFORM_SECRET_KEY, settings.PLATFORM_PREVIOUS_SECRET_KEY].filter(
    (key) => key !== undefined,
  );
  const tokens = (purpose: string) =>
    given.map((key) => deriveKey(Buffer.from(key, 'base64'), purpose).toString('base64url'));
  return { codecAccess: tokens('codec-access'), metrics: tokens('metrics') };
}

/** Texts of the first key have no number. */
export function numbered(number: number, text: string): string {
  return number === 1 ? text : `${number}.${text}`;
}

/** The number of the secret key that a text was made with. */
export function parseNumbered(text: string): { number: number; rest: string } {
  const [, number, rest] = /^(\d{1,9})\.(.*)$/s.exec(text) ?? [];
  return number === undefined ? { number: 1, rest: text } : { number: Number(number), rest: rest! };
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
