import type { SandboxStatus } from './state.ts';

/**
 * How long a sandbox ran and how long it was paused. Only finished phases are stored. The current phase is added on
 * each read. The stored totals are milliseconds and the replies are whole seconds, so that many short phases do not
 * lose a second each.
 */
interface SandboxClock {
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

interface ClockTotals {
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

const dayMs = 86_400_000;

/** When a sandbox that was paused at `pausedAt` is removed. Null: it is not paused, or the plan has no limit. */
export function persistenceExpiresAt(pausedAt: Date | null, persistenceDays: number | null): Date | null {
  if (!pausedAt || persistenceDays === null) return null;
  return new Date(pausedAt.getTime() + persistenceDays * dayMs);
}

/** Whole days left, rounded up: the last day counts as 1 until it ends. */
export function persistenceDaysRemaining(expiresAt: Date | null, now: Date): number | null {
  return expiresAt ? Math.max(0, Math.ceil((expiresAt.getTime() - now.getTime()) / dayMs)) : null;
}

/** How long before the removal of a paused sandbox its owner is notified: a day, or half of a shorter persistence. */
export function expiryWarningMs(persistenceDays: number): number {
  return Math.min(dayMs, (persistenceDays * dayMs) / 2);
}
