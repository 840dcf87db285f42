import { z } from 'zod';
import { type ErrorCode, errorStatus } from '../../domain/errors.ts';
import { time } from './fields.ts';

/** The envelope of a reply with data. */
export function envelope<T extends z.ZodType>(data: T, what: string) {
  return z.object({ success: z.literal(true), data, message: z.string().optional(), timestamp: time() }).describe(what);
}

/** The envelope of a reply that only has a message. */
export function messageEnvelope(what: string) {
  return z.object({ success: z.literal(true), message: z.string(), timestamp: time() }).describe(what);
}

/** Puts data, and an optional message, into the envelope. */
export function success<T>(data: T, message?: string) {
  return { success: true as const, data, ...(message === undefined ? {} : { message }), timestamp: new Date() };
}

/** A successful reply without data. */
export function successMessage(message: string) {
  return { success: true as const, message, timestamp: new Date() };
}

type FailureStatus = (typeof errorStatus)[ErrorCode];

const details = z
  .array(z.object({ path: z.string(), reason: z.string().meta({ examples: ['must have 1 to 15 characters'] }) }))
  .optional()
  .describe('Path and reason of each field that was refused');

/** Codes whose replies contain the time of the earliest retry. */
const pendingCodes: readonly ErrorCode[] = ['password_reset_pending', 'email_change_pending'];

const pending = z
  .object({ time_remaining_minutes: z.int().min(1).describe('Minutes until it can be requested again') })
  .optional()
  .describe('For `password_reset_pending` and `email_change_pending`');

function failure(codes: ErrorCode[]) {
  return z
    .object({
      success: z.literal(false),
      error: z.string().describe('A message for people, without internal details'),
      code: z.enum(codes).describe('For programs; stable'),
      request_id: z.string(),
      timestamp: time(),
      details,
      ...(codes.some((code) => pendingCodes.includes(code)) && { data: pending }),
    })
    .describe(codes.join(', '));
}

/** Errors of any route. */
export const ofEveryRoute: readonly ErrorCode[] = [
  'validation_failed',
  'unauthenticated',
  'cross_site_request',
  'too_many_requests',
  'internal_error',
  'temporarily_unavailable',
  'workflow_failing',
];

/** Further errors of any route that changes something. */
export const ofMutations: ErrorCode[] = [
  'invalid_json',
  'account_suspended',
  'payload_too_large',
  'unsupported_media_type',
];

/** Further errors of a POST with an `Idempotency-Key`. */
export const ofIdempotency: ErrorCode[] = ['idempotency_key_reused', 'idempotency_key_in_use'];

/** Further errors of a list. */
export const ofPaging: ErrorCode[] = ['invalid_pagination'];

/** Further errors of a route that starts an existing sandbox: the sandbox is admitted, and its mounts are made. */
export const ofStarts: ErrorCode[] = [
  'concurrent_limit_reached',
  'quota_used_up',
  'subscription_past_due',
  'budget_restricted',
  'no_capacity',
  'host_unavailable',
  'object_storage_credentials_required',
  'object_storage_mount_failed',
];

/**
 * The error replies of a route, by status, each with its possible codes.
 * @param codes the codes in addition to those of every route
 */
export function failures(...codes: (ErrorCode | ErrorCode[])[]): Partial<Record<FailureStatus, z.ZodType>> {
  const byStatus = new Map<FailureStatus, ErrorCode[]>();
  for (const code of new Set([...ofEveryRoute, ...codes.flat()])) {
    byStatus.set(errorStatus[code], [...(byStatus.get(errorStatus[code]) ?? []), code]);
  }
  return Object.fromEntries([...byStatus].map(([status, known]) => [status, failure(known)]));
}
