/**
 * Ids consist of a prefix for the kind and a part that cannot be guessed. They have only lower-case letters and digits,
 * so that a sandbox's id is also a DNS label.
 */
export const idPrefixes = {
  account: 'acc',
  user: 'usr',
  project: 'prj',
  apiKey: 'key',
  template: 'tpl',
  sandbox: 'sbx',
  event: 'evt',
  notification: 'ntf',
  quotaAllocation: 'qal',
  quotaRequest: 'qtr',
  subscription: 'sub',
  host: 'host',
  batch: 'bat',
  execution: 'run',
  /** A request that creates no object. */
  request: 'req',
  session: 'ses',
  tokenKey: 'tkk',
  emailChange: 'emc',
  auditEvent: 'aud',
  importJob: 'job',
  webhookEndpoint: 'whk',
  webhookDelivery: 'whd',
  ledgerTransaction: 'ltx',
  paymentMethod: 'pmt',
  paymentRefund: 'prf',
  invoice: 'inv',
  planChange: 'chg',
  budget: 'bgt',
  budgetMessage: 'bgm',
} as const;

export type IdKind = keyof typeof idPrefixes;
export type Id<K extends IdKind> = `${(typeof idPrefixes)[K]}-${string}`;

export type AccountId = Id<'account'>;
export type UserId = Id<'user'>;
export type ProjectId = Id<'project'>;
export type ApiKeyId = Id<'apiKey'>;
export type TemplateId = Id<'template'>;
export type SandboxId = Id<'sandbox'>;
export type EventId = Id<'event'>;
export type NotificationId = Id<'notification'>;
export type ImportJobId = Id<'importJob'>;
export type WebhookEndpointId = Id<'webhookEndpoint'>;
export type WebhookDeliveryId = Id<'webhookDelivery'>;
export type SessionId = Id<'session'>;
export type InvoiceId = Id<'invoice'>;
export type PlanChangeId = Id<'planChange'>;

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
const suffixLength = 20;

/** Makes an id from random bytes: 20 characters, about 103 bits. `random` must give unpredictable bytes. */
export function makeId<K extends IdKind>(kind: K, random: (size: number) => Uint8Array): Id<K> {
  let suffix = '';
  while (suffix.length < suffixLength) {
    for (const byte of random(32)) {
      // 252 is the largest multiple of 36 in a byte. Larger bytes would favour the first letters of the alphabet.
      if (byte < 252 && suffix.length < suffixLength) suffix += alphabet[byte % 36];
    }
  }
  return `${idPrefixes[kind]}-${suffix}`;
}

/** Whether `text` has the format of an id of that kind. The object need not exist. */
export function isId<K extends IdKind>(kind: K, text: string): text is Id<K> {
  const prefix = `${idPrefixes[kind]}-`;
  return text.startsWith(prefix) && /^[a-z0-9]{1,40}$/.test(text.slice(prefix.length));
}
