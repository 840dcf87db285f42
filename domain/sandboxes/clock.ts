import type { SandboxStatus } from './state.ts';

/**
 * How long a sandbox ran and how long it was paused. Only finished phases are stored. The current phase is added on
 * each read. The stored totals are milliseconds and the replies are whole seconds, so that many short phases do not
 * lose a second each.
 */
export interface SandboxClock {
  runningMs: number;
  pausedMs: number;
  /** Start of the current phase, running or paused. Null: neither (starting, ended). */
  phase: { kind: 'running' | 'paused'; since: Date } | null;
}

export const stoppedClock: SandboxClock = { runningMs: 0, pausedMs: 0, phase: null };

/**
 * Ends the current phase at `at` and begins the next one. If the machine's clock was set back, the phase counts as
 * zero, never as negative.
 */
export function turn(clock: SandboxClock, next: 'running' | 'paused' | null, at: Date): SandboxClock {
  const elapsed = clock.phase ? Math.max(0, at.getTime() - clock.phase.since.getTime()) : 0;
  return {
    runningMs: clock.runningMs + (clock.phase?.kind === 'running' ? elapsed : 0),
    pausedMs: clock.pausedMs + (clock.phase?.kind === 'paused' ? elapsed : 0),
    phase: next ? { kind: next, since: at } : null,
  };
}

export interface ClockTotals {
  /** Whole seconds, including the current phase. */
  totalRunningSeconds: number;
  totalPausedSeconds: number;
  /** Whole seconds of finished phases only. */
  actualTotalRunningSeconds: number;
  actualTotalPausedSeconds: number;
}

/** The four totals of a sandbox at `now`. */
export function totals(clock: SandboxClock, now: Date): ClockTotals {
  const current = turn(clock, null, now);
  return {
    totalRunningSeconds: seconds(current.runningMs),
    totalPausedSeconds: seconds(current.pausedMs),
    actualTotalRunningSeconds: seconds(clock.runningMs),
    actualTotalPausedSeconds: seconds(clock.pausedMs),
  };
}

/** When a timeout that counts from `from` ends the running phase. Null outside a running phase. */
export function timeoutAt(status: SandboxStatus, from: Date | null, timeoutSeconds: number): Date | null {
  if (!from || (status !== 'running' && status !== 'pausing')) return null;
  return new Date(from.getTime() + timeoutSeconds * 1000);
}

/** Whole seconds left, at least 0. Null when no timeout runs. */
export function remainingSeconds(deadline: Date | null, now: Date): number | null {
  return deadline ? Math.max(0, seconds(deadline.getTime() - now.getTime())) : null;
}

const seconds = (ms: number) => Math.floor(ms / 1000);
