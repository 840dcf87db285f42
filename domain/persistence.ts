const dayMs = 86_400_000;

/**
 * When a sandbox that was paused at `pausedAt` is removed. Null: it is not paused, or the plan keeps it without end.
 */
export function persistenceExpiresAt(pausedAt: Date | null, persistenceDays: number | null): Date | null {
  if (!pausedAt || persistenceDays === null) return null;
  return new Date(pausedAt.getTime() + persistenceDays * dayMs);
}

/** Whole days left, rounded up: 1 until the end. */
export function persistenceDaysRemaining(expiresAt: Date | null, now: Date): number | null {
  return expiresAt ? Math.max(0, Math.ceil((expiresAt.getTime() - now.getTime()) / dayMs)) : null;
}

/** The owner is notified this long before a paused sandbox is removed: a day, or half of a shorter time. */
export function expiryWarningMs(persistenceDays: number): number {
  return Math.min(dayMs, (persistenceDays * dayMs) / 2);
}
