import { z } from 'zod';
import { AppError } from '../../../domain/errors.ts';
import { audienceOf, eventTypes } from '../../../domain/event-types.ts';
import { problemOfWebhookUrl, webhookUrlLength } from '../../../domain/webhooks/url.ts';
import { counted, optional, optionalNonZero } from '../../schemas/fields.ts';

/** Enough for all types and families, even if each is listed twice. */
const mostEventTypes = 100;

export const urlField = z.string().min(1).max(webhookUrlLength).describe('`http://` or `https://`');
export const eventTypesField = counted(
  mostEventTypes,
  'event types',
  z.array(z.string().max(64)).max(mostEventTypes),
).describe('Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types`');

const secretReason = 'must be whsec_ and base64 of 24 to 64 bytes';
export const secretField = z
  .string()
  .max('whsec_'.length + 88, secretReason)
  .regex(/^whsec_[A-Za-z0-9+/=]{32,88}$/, secretReason)
  .refine((secret) => {
    const [, encoded = ''] = secret.split('_');
    const bytes = Buffer.from(encoded, 'base64');
    return bytes.length >= 24 && bytes.length <= 64 && bytes.toString('base64') === encoded;
  }, secretReason)
  .describe('Adds a `v1` signature (HMAC) to requests; stored encrypted and never returned');

/** Fields that create and update share. */
export const settingsFields = {
  scope: optionalNonZero(z.enum(['user', 'account'])).describe(
    '`user`: events of your own objects; `account`: all of the account, for root users',
  ),
  timeout_seconds: optionalNonZero(z.int().min(5).max(300)).describe('For one whole attempt, including the reply'),
  max_retries: optional(z.int().min(0).max(10)),
  secret: optionalNonZero(secretField),
};

/** @throws {AppError} `invalid_webhook_url` */
export function checkUrl(url: string, allowedRanges: readonly string[]): string {
  const reason = problemOfWebhookUrl(url, allowedRanges);
  if (reason === null) return url;
  throw new AppError('invalid_webhook_url', `url: ${reason}`, { details: [{ path: 'url', reason }] });
}

/**
 * Checks which events an endpoint with these types receives.
 * @param isRoot the caller acts as a root user of the account
 * @param wanted.scope undefined: the scope that the types need
 * @returns the types without duplicates
 * @throws {AppError} `unsupported_event_type`; `root_required` when another user asks for events of the account
 */
export function checkSubscription(
  isRoot: boolean,
  wanted: { eventTypes: readonly string[]; scope: 'user' | 'account' | undefined },
): { eventTypes: string[]; scope: 'user' | 'account' } {
  const { eventTypes: subscriptions } = wanted;
  if (subscriptions.length === 0) throw unsupported('event_types', 'must name at least one type');
  for (const [index, each] of subscriptions.entries()) {
    if (audienceOf(each)) continue;
    throw unsupported(`event_types.${index}`, `is not one of ${eventTypes.map(({ type }) => type).join(', ')}`);
  }
  const ofAccount = subscriptions.findIndex((each) => audienceOf(each) === 'account');
  const scope = wanted.scope ?? (ofAccount === -1 ? 'user' : 'account');
  if ((scope === 'account' || ofAccount !== -1) && !isRoot) {
    throw new AppError('root_required', "Only a root user may subscribe to the account's events");
  }
  if (scope === 'user' && ofAccount !== -1) {
    throw unsupported(`event_types.${ofAccount}`, `needs the scope account: ${subscriptions[ofAccount]}`);
  }
  return { eventTypes: [...new Set(subscriptions)], scope };
}

function unsupported(path: string, reason: string): AppError {
  return new AppError('unsupported_event_type', `${path}: ${reason}`, { details: [{ path, reason }] });
}
