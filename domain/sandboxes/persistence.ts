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
