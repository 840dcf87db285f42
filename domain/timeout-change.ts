import { AppError } from './errors.ts';

/** A request to change the timeout of a sandbox. */
export interface TimeoutChange {
  timeoutSeconds: number;
  /** Refuse a timeout that is not longer than the present one (`timeout_not_raised`). */
  mustRaise: boolean;
}

/** The timeout of a sandbox and the start of the running phase that it counts from. */
export interface PhaseTimeout {
  timeoutSeconds: number;
  /** Unix milliseconds; null outside of a running phase. */
  fromMs: number | null;
}

export interface TimeoutReply {
  timeoutSeconds: number;
  /** Unix milliseconds; null outside of a running phase. */
  timeoutAtMs: number | null;
  appliesTo: 'current_phase' | 'next_phase';
}

/** @throws {AppError} `timeout_not_raised`, or `timeout_already_passed` when the sandbox has run for longer already */
export function requirePossibleTimeout(present: PhaseTimeout, change: TimeoutChange, nowMs: number): void {
  if (change.mustRaise && change.timeoutSeconds <= present.timeoutSeconds) {
    const message = `The timeout must be longer than the present ${present.timeoutSeconds} seconds`;
    throw new AppError('timeout_not_raised', message);
  }
  if (present.fromMs !== null && present.fromMs + change.timeoutSeconds * 1000 <= nowMs) {
    const message = 'The sandbox has run for longer than that; terminate or pause it instead';
    throw new AppError('timeout_already_passed', message);
  }
}

/** @param present the timeout after the change */
export function timeoutReply({ timeoutSeconds, fromMs }: PhaseTimeout): TimeoutReply {
  return {
    timeoutSeconds,
    timeoutAtMs: fromMs === null ? null : fromMs + timeoutSeconds * 1000,
    appliesTo: fromMs === null ? 'next_phase' : 'current_phase',
  };
}
