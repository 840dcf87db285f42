import { setTimeout as delay } from 'node:timers/promises';
import { SandboxError } from './errors.ts';

const attempts = 5;
const firstDelayMs = 200;
const maxDelayMs = 10_000;

/** Failures that are independent of the request itself. */
const passing = new Set([
  'connection_failed',
  'idempotency_key_in_use',
  'rate_limited',
  'too_many_requests',
  'sandbox_busy',
]);
const passingStatus = new Set([429, 502, 503, 504]);
/** Errors with one of these statuses that a retry cannot change. */
const lasting = new Set(['sandbox_not_running', 'concurrent_limit_reached', 'sandbox_bad_response', 'no_capacity']);

/** Tries again after temporary failures, with growing pauses. A `Retry-After` is respected. */
export async function withRetries<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === attempts || !isPassing(error)) throw error;
      const pauseMs = Math.min(firstDelayMs * 2 ** (attempt - 1) * (1 + Math.random()), maxDelayMs);
      const askedMs = (error.retryAfterSeconds ?? 0) * 1000;
      // A longer wait is the caller's decision.
      if (askedMs > maxDelayMs) throw error;
      await delay(Math.max(pauseMs, askedMs), undefined, { ...(signal && { signal }) });
    }
  }
}

function isPassing(error: unknown): error is SandboxError {
  if (!(error instanceof SandboxError) || lasting.has(error.code)) return false;
  return passing.has(error.code) || passingStatus.has(error.status ?? 0);
}
