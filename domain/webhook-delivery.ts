import type { EventId } from './ids.ts';
import { withRetryAfter } from './webhook-schedule.ts';

/**
 * - `pending`: no attempt has begun
 * - `delivering`: an attempt is under way
 * - `retrying`: one has failed, another will follow
 * - `delivered`, `failed`: over
 */
export type DeliveryStatus = 'pending' | 'delivering' | 'retrying' | 'delivered' | 'failed';

/** Bytes of a reply that are kept with an attempt. */
export const keptReplyBytes = 4096;

/** The outcome of one request to an endpoint. */
export interface AttemptOutcome {
  /** RFC 3339. */
  startedAt: string;
  durationMs: number;
  /** Null: no reply came. */
  httpStatus: number | null;
  /** Why the attempt failed; null: it succeeded. */
  error: string | null;
  /** The beginning of the reply's body; null: no reply came. */
  reply: string | null;
  /** How long the receiver asks to wait. */
  retryAfterMs: number | null;
}

/** Whether the endpoint says that it is gone for good. */
export function isGone(outcome: AttemptOutcome): boolean {
  return outcome.httpStatus === 410;
}

/** The event as every attempt sends it. */
export interface DeliveredEvent {
  eventId: EventId;
  eventType: string;
  /** RFC 3339. */
  eventAt: string;
  data: Record<string, unknown>;
}

/** The body: the same bytes at every attempt. */
export function bodyOf({ eventId, eventType, eventAt, data }: DeliveredEvent): string {
  return JSON.stringify({ id: eventId, type: eventType, timestamp: eventAt, data });
}

/** The status of a delivery after an attempt. */
export type Verdict =
  | { status: 'delivered' | 'failed' }
  /** @property waitMs until the next attempt */
  | { status: 'retrying'; waitMs: number };

/**
 * @param round.attempt of this round, from 1
 * @param round.spacingMs until the next attempt, if there is one
 */
export function judge(
  outcome: AttemptOutcome,
  round: { attempt: number; maxRetries: number; spacingMs: number },
): Verdict {
  if (outcome.error === null) return { status: 'delivered' };
  if (isGone(outcome) || round.attempt > round.maxRetries) return { status: 'failed' };
  return { status: 'retrying', waitMs: withRetryAfter(round.spacingMs, outcome.retryAfterMs) };
}
