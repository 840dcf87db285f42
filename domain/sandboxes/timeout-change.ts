import { AppError } from '../errors.ts';

/** A request to change the timeout of a sandbox. */
export interface TimeoutChange {
  timeoutSeconds: number;
  /** Refuse a timeout that is not longer than the current one (`timeout_not_raised`). */
  mustRaise: boolean;
}

/** The timeout of a sandbox and the start of the running phase that it counts from. */
export interface PhaseTimeout {
  timeoutSeconds: number;
  /** Unix milliseconds. Null outside a running phase. */
  fromMs: number | null;
}

export interface TimeoutReply {
  timeoutSeconds: number;
  /** Unix milliseconds. Null outside a running phase. */
  timeoutAtMs: number | null;
  appliesTo: 'current_phase' | 'next_phase';
}

/** @throws {AppError} `timeout_not_raised`, or `timeout_already_passed` when the sandbox has already run for longer */
export function requirePossibleTimeout(present: PhaseTimeout, change: TimeoutChange, nowMs: number): void {
  if (change.mustRaise && change.timeoutSeconds <= present.timeoutSeconds) {
    const message = `The timeout must be longer than the current ${present.timeoutSeconds} seconds`;
    throw new AppError('timeout_not_raised', message);
  }
  if (present.fromMs !== null && present.fromMs + change.timeoutSeconds * 1000 <= nowMs) {
    const message = 'The sandbox has already run for longer than this; terminate or pause it instead';
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
