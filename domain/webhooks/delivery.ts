import type { EventId } from '../ids.ts';
import { withRetryAfter } from './schedule.ts';

/**
 * - `pending`: no attempt has begun
 * - `delivering`: an attempt is in progress
 * - `retrying`: an attempt has failed, and another will follow
 * - `delivered`, `failed`: final
 */
export type DeliveryStatus = 'pending' | 'delivering' | 'retrying' | 'delivered' | 'failed';

/** The number of bytes of a reply that are stored with an attempt. */
export const keptReplyBytes = 4096;

/** The outcome of one request to an endpoint. */
export interface AttemptOutcome {
  /** RFC 3339. */
  startedAt: string;
  durationMs: number;
  /** Null: no reply arrived. */
  httpStatus: number | null;
  /** The reason of a failed attempt. Null: the attempt succeeded. */
  error: string | null;
  /** The beginning of the reply's body. Null: no reply arrived. */
  reply: string | null;
  /** The wait that the receiver asks for. */
  retryAfterMs: number | null;
}

/** Whether the endpoint answered 410 Gone. */
export function isGone(outcome: AttemptOutcome): boolean {
  return outcome.httpStatus === 410;
}

/** An event. Every attempt sends the same one. */
export interface DeliveredEvent {
  eventId: EventId;
  eventType: string;
  /** RFC 3339. */
  eventAt: string;
  data: Record<string, unknown>;
}

/** The body of the request. Its bytes are the same on every attempt. */
export function formatBody({ eventId, eventType, eventAt, data }: DeliveredEvent): string {
  return JSON.stringify({ id: eventId, type: eventType, timestamp: eventAt, data });
}

/** The status of a delivery after an attempt. */
export type Verdict =
  | { status: 'delivered' | 'failed' }
  /** @property waitMs the time until the next attempt */
  | { status: 'retrying'; waitMs: number };

/**
 * @param round.attempt the number of the attempt in this round, from 1
 * @param round.spacingMs the time until the next attempt, if there is one
 */
export function judge(
  outcome: AttemptOutcome,
  round: { attempt: number; maxRetries: number; spacingMs: number },
): Verdict {
  if (outcome.error === null) return { status: 'delivered' };
  if (isGone(outcome) || round.attempt > round.maxRetries) return { status: 'failed' };
  return { status: 'retrying', waitMs: withRetryAfter(round.spacingMs, outcome.retryAfterMs) };
}
