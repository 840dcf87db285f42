import { z } from 'zod';
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
